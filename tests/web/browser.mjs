// browser.mjs - a quiet headless Chromium with a profile of its own.
//
// The browser is the distribution's ($CHROMIUM, else /usr/bin/chromium): nothing is downloaded.  Every page counts its
// console messages, exceptions and requests, so a test can demand that there were none.
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

export const executable = process.env.CHROMIUM || '/usr/bin/chromium';

export const present = () => existsSync(executable);

export async function withBrowser(body) {
    const profile = mkdtempSync(join(tmpdir(), 'sluice-chromium-'));
    const context = await chromium.launchPersistentContext(profile, {
        executablePath: executable,
        headless: true,
        args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
               '--disable-component-update', '--disable-sync', '--force-color-profile=srgb'],
    });
    try {
        return await body(context);
    } finally {
        await context.close();
        rmSync(profile, { recursive: true, force: true });
    }
}

// Opens a file and returns { page, trouble }: trouble fills with whatever should not happen.
export async function open(context, path, { width = 1280, height = 900, scheme = 'light', script = true } = {}) {
    const page = await context.newPage();
    const trouble = [];
    page.on('console', (m) => trouble.push(`console ${m.type()}: ${m.text()}`));
    page.on('pageerror', (e) => trouble.push(`exception: ${e.message}`));
    page.on('dialog', (d) => { trouble.push(`dialog: ${d.message()}`); d.dismiss(); });
    page.on('request', (r) => { if (!/^(file|data):/.test(r.url())) trouble.push(`request: ${r.url()}`); });
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' });
    if (!script) await page.addInitScript(() => {});
    await page.goto('file://' + path);
    return { page, trouble };
}
