// check_report.mjs FILE.html [--desk] [SECTION...] - looks at a report as a reader would, in a real
// browser.
//
// Checks marks that are drawn, not elements that exist: boxes with an extent, inside the page, and
// pixels of the policy's own colour in a screenshot.  Then: nothing requested, nothing logged, no
// sideways scrolling on a phone, everything readable without script, names and contrast for
// accessibility, paper. Prints one line per finding; exits 1 when there is any.  SECTIONs are ids
// that must be present; --desk looks on a desk and on paper only, which is quicker.
import {statSync} from 'node:fs';
import {resolve} from 'node:path';
import {open, withBrowser} from './browser.mjs';

const file = resolve(process.argv[2] ?? '');
const sections = process.argv.slice(3).filter((a) => a !== '--desk');
const deskOnly = process.argv.includes('--desk');
const findings = [];
let checks = 0;

function expect(ok, what)
{
    checks++;
    if (!ok)
        findings.push(what);
}

// ---- marks --------------------------------------------------------------------------------------

async function checkMarks(page, label)
{
    const seen = await page.evaluate(() => {
        const box = (e) => {
            const r = e.getBoundingClientRect();
            return [ r.x + scrollX, r.y + scrollY, r.width, r.height ];
        };
        const inside = ([ x, y, w, h ], [ X, Y, W, H ]) =>
            x >= X - 8 && y >= Y - 8 && x + w <= X + W + 8 && y + h <= Y + H + 8;
        const visible = (e) => e.checkVisibility() && getComputedStyle(e).opacity > 0.05;
        const painted = (e) => {
            const s = getComputedStyle(e);
            return s.stroke !== 'none' || s.fill !== 'none';
        };
        const lines = [...document.querySelectorAll('.layer path.ln') ].map((e) => {
            const plot = box(e.closest('.plot')), b = box(e);
            return {
                ok : visible(e) && painted(e) && b[2] > 0.8 * plot[2] && b[3] >= 1 &&
                         inside(b, plot),
                b
            };
        });
        const points = [...document.querySelectorAll('#plane-svg .point .pt') ].map((e) => {
            const b = box(e);
            return {
                ok : visible(e) && b[2] >= 6 && b[3] >= 6 &&
                         inside(b, box(document.getElementById('plane-svg'))),
                b
            };
        });
        const charts = [...document.querySelectorAll('svg.chart') ].map(
            (e) => ({
                id : e.querySelector('title').id,
                ticks : [...e.querySelectorAll('text.tk') ].filter(visible).length,
                small :
                    [...e.querySelectorAll('text') ]
                        .filter((t) => visible(t) && parseFloat(getComputedStyle(t).fontSize) < 11)
                        .length,
            }));
        const texts =
            [...document.querySelectorAll('#plane-svg text.lb') ].filter(visible).map(box);
        return {
            lines,
            points,
            charts,
            texts,
            width : innerWidth,
            wide : document.documentElement.scrollWidth,
            rows : document.querySelectorAll('#evaluation tbody tr').length
        };
    });
    expect(seen.wide <= seen.width,
           `${label}: page is ${seen.wide} px wide in a window of ${seen.width}`);
    expect(seen.rows > 0, `${label}: no policy in the table`);
    expect(seen.points.length > 0, `${label}: no point in the cost-miss plane`);
    seen.points.forEach(
        (p, i) => expect(p.ok, `${label}: point ${i} is not drawn inside its chart: ${p.b}`));
    seen.lines.forEach(
        (p, i) => expect(p.ok, `${label}: line ${i} is not drawn inside its chart: ${p.b}`));
    if (sections.includes('time'))
        expect(seen.lines.length >= 2, `${label}: no capacity or latency line`);
    for (const c of seen.charts) {
        expect(c.ticks >= 3, `${label}: chart ${c.id} has ${c.ticks} tick labels`);
        expect(c.small === 0, `${label}: chart ${c.id} has ${c.small} texts under 11 px`);
    }
    seen.texts.forEach(([ x, , w ]) => expect(x >= 0 && x + w <= seen.width + 1,
                                              `${label}: a point's label leaves the page`));
    for (let i = 0; i < seen.texts.length; i++)
        for (let j = 0; j < i; j++) {
            const [ax, ay, aw, ah] = seen.texts[i], [ bx, by, bw, bh ] = seen.texts[j];
            const over = Math.min(ax + aw, bx + bw) - Math.max(ax, bx),
                  down = Math.min(ay + ah, by + bh) - Math.max(ay, by);
            expect(!(over > 6 && down > 6),
                   `${label}: labels ${j} and ${i} of the plane cover each other`);
        }
}

// Pixels near any of the colours in a picture, counted by a blank page.
async function countPixels(context, picture, colours)
{
    const png = picture.toString('base64');
    const blank = await context.newPage();
    const n = await blank.evaluate(async ([ data, wanted ]) => {
        const img = new Image();
        img.src = 'data:image/png;base64,' + data;
        await img.decode();
        const c = new OffscreenCanvas(img.width, img.height), g2 = c.getContext('2d');
        g2.drawImage(img, 0, 0);
        const p = g2.getImageData(0, 0, img.width, img.height).data;
        let count = 0;
        for (let i = 0; i < p.length; i += 4)
            count += wanted.some(
                ([ r, g, b ]) =>
                    Math.abs(p[i] - r) + Math.abs(p[i + 1] - g) + Math.abs(p[i + 2] - b) < 60);
        return count;
    }, [ png, colours ]);
    await blank.close();
    return n;
}

async function cssColour(page, name)
{
    return page.evaluate((v) => {
        const e = document.createElement('i');
        e.style.color = `var(${v})`;
        document.body.append(e);
        const m = getComputedStyle(e).color.match(/[\d.]+/g).slice(0, 3).map(Number);
        e.remove();
        return m;
    }, name);
}

async function checkPaint(context, page, label)
{
    const palette =
        await Promise.all([ 0, 1, 2, 3, 4, 5, 6, 7 ].map((i) => cssColour(page, `--p${i}`)));
    const points = await page.$$('#plane-svg .point .pt');
    const boxes = await Promise.all(points.map((p) => p.boundingBox()));
    const covers = (a, b) => Math.abs(a.x - b.x) < 14 && Math.abs(a.y - b.y) < 14;
    for (const [i, point] of points.entries()) {
        if (boxes.slice(i + 1).some((later) => covers(later, boxes[i])))
            continue;
        await point.scrollIntoViewIfNeeded();
        const b = await point.boundingBox(), x = Math.round(b.x + b.width / 2),
              y = Math.round(b.y + b.height / 2);
        const n = await countPixels(
            context, await page.screenshot({clip : {x : x - 3, y : y - 2, width : 6, height : 4}}),
            palette);
        expect(n >= 12,
               `${label}: ${n} of 24 pixels at the middle of point ${i} have a policy's colour`);
    }
    for (const cell of (await page.$$('.cell:has(.plot[data-k])')).slice(0, 2)) {
        const c = await cell.evaluate(
            (e) => e.querySelector('.chip').getAttribute('class').match(/c(\d)/)[1]);
        const n = await countPixels(context, await cell.screenshot(), [ palette[c] ]);
        expect(n > 300, `${label}: ${n} pixels of colour ${c} in a chart over time`);
    }
}

// ---- reading ------------------------------------------------------------------------------------

const luminance = (rgb) => {
    const [r, g, b] = rgb.map((v) => {
        v /= 255;
        return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (a, b) => {
    const [x, y] = [ luminance(a), luminance(b) ].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
};

async function checkContrast(page, label)
{
    const colours = {};
    for (const name of ['--bg', '--panel', '--ink', '--soft', '--bad', '--good', '--tie', '--link',
                        ...[0, 1, 2, 3, 4, 5, 6, 7].map((i) => `--p${i}`)])
        colours[name] = await cssColour(page, name);
    for (const [name, rgb] of Object.entries(colours)) {
        if (name === '--bg' || name === '--panel')
            continue;
        const least = 4.5; /* WCAG AA for text; marks carry labels in their colour, so they are held
                              to it too */
        for (const back of ['--bg', '--panel']) {
            const c = contrast(rgb, colours[back]);
            expect(c >= (back === '--bg' || !name.startsWith('--p') ? least : 3),
                   `${label}: ${name} on ${back} has contrast ${c.toFixed(2)}`);
        }
    }
}

async function checkStructure(page)
{
    const found = await page.evaluate(() => {
        const ids = [...document.querySelectorAll('[id]') ].map((e) => e.id);
        return {
            lang : document.documentElement.lang,
            title : document.title,
            h1 : document.querySelectorAll('h1').length,
            twice : ids.filter((id, i) => ids.indexOf(id) !== i),
            unnamed :
                [...document.querySelectorAll('svg[role=img]') ]
                    .filter(
                        (s) => !s.getAttribute('aria-labelledby')
                                    .split(' ')
                                    .every((id) => document.getElementById(id)?.textContent.trim()))
                    .length,
            heads : [...document.querySelectorAll('th') ]
                        .filter((h) => !h.getAttribute('scope'))
                        .length,
            tables : document.querySelectorAll('table').length,
            scripts : document.querySelectorAll('script').length,
            foreign : document
                          .querySelectorAll(
                              'img,iframe,object,embed,link:not([rel=icon]),base,form,video,audio')
                          .length,
            handlers : [...document.querySelectorAll('*') ]
                           .filter((e) => [...e.attributes].some((a) => /^on/i.test(a.name)))
                           .length,
            broken : [...document.querySelectorAll('nav a') ]
                         .filter((a) => !document.querySelector(a.getAttribute('href')))
                         .length,
            sections : [...document.querySelectorAll('section.part') ].map((s) => s.id),
            summary : document.getElementById('summary')?.textContent ?? '',
            odd : document.body.innerText.match(/\b(NaN|nan|undefined|Infinity|inf|null)\b/g) ?? [],
        };
    });
    expect(found.lang === 'en', 'no language stated');
    expect(found.title.length > 3 && found.h1 === 1, 'title or main heading missing');
    expect(found.twice.length === 0, `ids used twice: ${found.twice}`);
    expect(found.unnamed === 0, `${found.unnamed} charts without name or description`);
    expect(found.heads === 0, `${found.heads} table headers without scope`);
    expect(found.scripts === 1 && found.foreign === 0 && found.handlers === 0,
           `markup that is not ours: ${found.scripts} scripts, ${found.foreign} foreign elements, ${
               found.handlers} handlers`);
    expect(found.broken === 0, `${found.broken} links of the navigation lead nowhere`);
    expect(found.summary.length > 40, 'no summary in words');
    expect(found.odd.length === 0, `text holds ${found.odd}`);
    for (const s of sections)
        expect(found.sections.includes(s), `section ${s} is missing`);
}

async function checkPointer(page)
{
    const plot = page.locator('.plot[data-k]').first();
    if (!await plot.count())
        return;
    await plot.scrollIntoViewIfNeeded();
    const b = await plot.boundingBox();
    await page.mouse.move(b.x + b.width / 2, b.y + b.height / 2);
    const tip = page.locator('.tip');
    expect(await tip.isVisible() && /:.*\d/.test(await tip.innerText()),
           'no values under the pointer');
    const before = await tip.innerText();
    await plot.focus();
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('PageDown');
    expect(await tip.isVisible() && await tip.innerText() !== before,
           'the arrow keys do not move the values');
    await page.keyboard.press('Escape');
    expect(!await tip.isVisible(), 'Escape leaves the values open');
}

async function checkToggle(page)
{
    const cell = page.locator('.cell.k0').first();
    if (!await page.locator('#tg0').count())
        return;
    await page.locator('label[for=tg0]').click();
    expect(!await cell.isVisible(), 'switching a policy off leaves its charts');
    await page.locator('label[for=tg0]').click();
    expect(await cell.isVisible(), 'switching a policy on again does not bring its charts back');
}

// ---- run ----------------------------------------------------------------------------------------

async function look(context, label, options, body)
{
    const {page, trouble} = await open(context, file, options);
    await body(page);
    trouble.forEach((t) => findings.push(`${label}: ${t}`));
    await page.close();
}

async function withScript(context)
{
    await look(context, 'desk', {}, async (page) => {
        await checkStructure(page);
        await checkMarks(page, 'desk');
        await checkPaint(context, page, 'desk');
        await checkContrast(page, 'light');
        await checkPointer(page);
        await checkToggle(page);
        const pdf = await page.pdf({format : 'A4', printBackground : true});
        expect(pdf.length > 20000, `the PDF has ${pdf.length} bytes`);
        await page.setViewportSize({width : 690, height : 975});
        await page.emulateMedia({media : 'print'});
        await checkMarks(page, 'paper');
    });
    if (deskOnly)
        return;
    await look(context, 'dark', {scheme : 'dark'}, async (page) => {
        await checkPaint(context, page, 'dark');
        await checkContrast(page, 'dark');
    });
    for (const width of [390, 320])
        await look(context, `phone ${width}`, {width, height : 844},
                   (page) => checkMarks(page, `phone ${width}`));
}

expect(statSync(file).size < 1.5e6, `the file has ${statSync(file).size} bytes`);
await withBrowser(withScript);
if (!deskOnly)
    await withBrowser((context) => look(context, 'no script', {}, async (page) => {
                          await checkMarks(page, 'no script');
                          await checkToggle(page);
                      }), {javaScriptEnabled : false});
findings.slice(0, 30).forEach((f) => console.log(`FAIL ${f}`));
console.log(`${checks - findings.length} of ${checks} checks of ${file} passed`);
process.exitCode = findings.length ? 1 : 0;
