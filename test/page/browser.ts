/** A browser without a window, of Debian's packages. */
import { existsSync } from 'node:fs';
import { type Browser, chromium } from 'playwright-core';

/** The first needs fewer packages. */
const programs = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'];

/** Throws if there is none. */
export async function openBrowser(): Promise<Browser> {
  const executablePath = programs.find((path) => existsSync(path));
  if (executablePath === undefined) throw new Error(`no browser: none of ${programs.join(', ')}`);
  return chromium.launch({
    executablePath,
    args: [
      ...['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'],
      ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
    ],
  });
}
