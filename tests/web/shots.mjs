// shots.mjs FILE.html DIR - pictures of a report to look at: desk, dark, phone, paper.
import {mkdirSync} from 'node:fs';
import {resolve} from 'node:path';
import {open, withBrowser} from './browser.mjs';

const [file, dir] = process.argv.slice(2).map((p) => resolve(p));
mkdirSync(dir, {recursive : true});
await withBrowser(async (context) => {
    for (const [name, options] of Object.entries({
             light : {},
             dark : {scheme : 'dark'},
             phone : {width : 390, height : 844},
         })) {
        const {page, trouble} = await open(context, file, options);
        await page.screenshot({path : `${dir}/${name}.png`, fullPage : true});
        if (name === 'light')
            await page.pdf({path : `${dir}/print.pdf`, format : 'A4', printBackground : true});
        trouble.forEach((t) => console.log(name, t));
        await page.close();
    }
});
