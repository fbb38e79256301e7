// browser.mjs - a quiet headless Chromium with a profile of its own.
//
// The browser is the distribution's ($CHROMIUM, else /usr/bin/chromium): nothing is downloaded.
// Every page collects its console messages, exceptions, dialogs and requests, so a test can demand
// that there were none.
import {mkdtempSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {chromium} from 'playwright-core';

const ARGS = [
    '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
    '--disable-background-networking', '--disable-component-update', '--disable-sync',
    '--force-color-profile=srgb'
];

export async function withBrowser(body, options = {})
{
    const profile = mkdtempSync(join(tmpdir(), 'sluice-chromium-'));
    try {
        const context = await chromium.launchPersistentContext(profile, {
            executablePath : process.env.CHROMIUM || '/usr/bin/chromium',
            headless : true,
            args : ARGS,
            ...options,
        });
        try {
            return await body(context);
        } finally {
            await context.close();
        }
    } finally {
        rmSync(profile, {recursive : true, force : true});
    }
}

// Opens a file; `trouble` fills with whatever should not happen.
export async function open(context, path, {width = 1280, height = 900, scheme = 'light'} = {})
{
    const page = await context.newPage();
    const trouble = [];
    page.on('console', (m) => trouble.push(`console ${m.type()}: ${m.text()}`));
    page.on('pageerror', (e) => trouble.push(`exception: ${e.message}`));
    page.on('dialog', (d) => {
        trouble.push(`dialog: ${d.message()}`);
        d.dismiss();
    });
    page.on('request', (r) => {
        if (r.url() !== 'file://' + path && !r.url().startsWith('data:'))
            trouble.push(`request: ${r.url()}`);
    });
    await page.setViewportSize({width, height});
    await page.emulateMedia({colorScheme : scheme, reducedMotion : 'reduce'});
    await page.goto('file://' + path);
    return {page, trouble};
}
