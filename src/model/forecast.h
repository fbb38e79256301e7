/* forecast.h - what a forecast says.  Made by forecast/, read by decide/, scored by what happened. */
#ifndef MODEL_FORECAST_H
#define MODEL_FORECAST_H

#include <stdbool.h>
#include <stdint.h>

enum { FORECAST_POINTS = 3 }; /* means of the 5 minutes ending 5, 10 and 15 min ahead */
enum { FORECAST_LEVELS = 4 }; /* the three points, then the mean of the next 30 min */

/* Loads are in the unit of the series (requests/s).  Index i < 3: 5-min point i; 3: 30-min level. */
struct forecast {
    int64_t made_us;
    float mean[FORECAST_LEVELS];
    float lo80[FORECAST_LEVELS], hi80[FORECAST_LEVELS];
    float lo95[FORECAST_LEVELS], hi95[FORECAST_LEVELS];
    float base;        /* same-slot median of the profile, now */
    float slot_p95;    /* same-slot 95th percentile, now */
    float high;        /* 1.2 x the largest hi95 of the points: the high water */
    float hours_to_peak; /* until the usual daily peak, 0..24 */
    float uncertainty; /* 0..1 */
    bool usable;       /* enough history, and better than persistence for this service */
};

#endif
