/** Looks at the page with a browser, and leaves screenshots: see scripts/test-page. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { openBrowser } from './browser.ts';
import { addEndpoint, writeCluster } from './cluster.ts';
import { checkLayout } from './layout.ts';
import { measurePicture } from './picture.ts';
import { address, Program } from './program.ts';

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { whole: { type: 'boolean', default: false } },
});
const folder = positionals[0] ?? 'build/page';
const sizes = values.whole ? [1000, 10_000] : [200];
const desktop = { width: 1440, height: 900 };
const tablet = { width: 800, height: 1024 };
const phone = { width: 390, height: 844 };
/** The page is asked again every two seconds; a machine may be busy. */
const soonMs = 60_000;
const askedTimes = 30;

const views: Readonly<Record<string, BrowserContextOptions>> = {
  desktop: { viewport: desktop, colorScheme: 'light' },
  tablet: { viewport: tablet, colorScheme: 'light' },
  phone: { viewport: phone, colorScheme: 'light' },
  'desktop-dark': { viewport: desktop, colorScheme: 'dark' },
  'phone-dark': { viewport: phone, colorScheme: 'dark' },
};

const paths: Readonly<Record<string, string>> = {
  front: '/',
  service: '/?service=team-0/cache-7',
  search: '/?q=cart&state=unhealthy',
  changes: '/?changes=200#changes',
  explain: '/?to=team-0/cache-7:80&from=node',
  runbook: '/?runbook#from-outside',
};

/** Reads all manifests again, so it is not asked as often as the others. */
const rare = { more: '/?service=team-0/cache-7&more=true' };

mkdirSync(folder, { recursive: true });
const browser = await openBrowser();
try {
  await measurePicture(browser, folder);
  for (const services of sizes) await look(browser, services);
} finally {
  await browser.close();
}

async function look(browser: Browser, services: number): Promise<void> {
  const manifests = mkdtempSync(join(tmpdir(), 'fairlead-page-'));
  writeCluster(manifests, services);
  const program = new Program(manifests);
  try {
    await program.ready(services);
    if (values.whole) await measure(services);
    for (const [name, path] of Object.entries({ ...paths, ...rare })) {
      for (const [view, options] of Object.entries(views)) {
        const page = await open(browser, path, options);
        await checkLayout(page, `${path} for ${view}`);
        await page.screenshot({ path: join(folder, `${name}-${services}-${view}.png`) });
        await page.context().close();
      }
    }
    await withoutScripts(browser);
    await keyboard(browser);
    await links(browser);
    await sorting(browser);
    await renewal(browser, manifests);
    await silence(browser, program);
  } finally {
    await program.end();
    rmSync(manifests, { recursive: true });
  }
}

async function measure(services: number): Promise<void> {
  for (const [name, path] of Object.entries(paths)) {
    const times: number[] = [];
    let bytes = 0;
    for (let i = 0; i < askedTimes; i += 1) {
      const startedMs = performance.now();
      bytes = (await (await fetch(address + path)).text()).length;
      times.push(performance.now() - startedMs);
    }
    times.sort((a, b) => a - b);
    const [p50, most] = [times[askedTimes >> 1], times.at(-1)].map((ms) => ms!.toFixed(1));
    console.log(`${services} Services, ${name}: ${bytes} bytes, p50 ${p50} ms, most ${most} ms`);
  }
}

/** Fails on what a browser complains of, and where a reader would have to scroll sideways. */
async function open(browser: Browser, path: string, options: BrowserContextOptions): Promise<Page> {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('console', (message) => complaints.push(message.text()));
  page.on('pageerror', (error) => complaints.push(error.message));
  await page.goto(address + path);
  assert.deepEqual(complaints, []);
  const width = await page.evaluate('document.documentElement.scrollWidth');
  assert.equal(width, options.viewport?.width, `${path} is wider than the screen`);
  return page;
}

/** All that is there with scripts is there without. */
async function withoutScripts(browser: Browser): Promise<void> {
  const texts: string[] = [];
  for (const javaScriptEnabled of [true, false]) {
    const page = await open(browser, '/', { viewport: desktop, javaScriptEnabled });
    const main = await page.locator('main').textContent();
    texts.push(main!.replace(/([\d.]+[dhms])+|[\d.]+|…/g, '#'));
    await page.context().close();
  }
  assert.ok(texts[0] === texts[1], 'the page says something else without scripts');
}

/** The search is reached, filled and sent without a mouse. */
async function keyboard(browser: Browser): Promise<void> {
  const page = await open(browser, '/', { viewport: desktop });
  const field = () => page.evaluate('document.activeElement.name');
  for (let i = 0; i < 60 && (await field()) !== 'q'; i += 1) await page.keyboard.press('Tab');
  await page.keyboard.type('cart-7');
  await page.keyboard.press('Enter');
  await page.waitForURL('**/?namespace=&q=cart-7**');
  const rows = page.getByRole('table', { name: 'Services' }).getByRole('row');
  assert.ok((await rows.count()) > 1);
  await page.context().close();
}

/** A problem leads to its section of the runbook, which is at the top of the screen then. */
async function links(browser: Browser): Promise<void> {
  const page = await open(browser, paths.service!, { viewport: phone });
  await page.getByRole('link', { name: 'What to do' }).first().click();
  const heading = page.getByRole('heading', { name: 'From outside' });
  // It is there before the browser scrolls to it.
  const deadlineMs = performance.now() + soonMs;
  for (;;) {
    const { y = -phone.height } = (await heading.boundingBox()) ?? {};
    if (y > -1 && y < phone.height / 2) break;
    assert.ok(performance.now() < deadlineMs, `the section is ${y} px down`);
    await page.waitForTimeout(50);
  }
  await page.context().close();
}

/** A heading sorts the rows, and they stay sorted when the page is renewed. */
async function sorting(browser: Browser): Promise<void> {
  const page = await open(browser, '/', { viewport: desktop });
  const names = () => page.getByRole('table', { name: 'Services' }).getByRole('rowheader');
  const inOrder = async (): Promise<boolean> => {
    const texts = await names().allTextContents();
    const sorted = [...texts].sort((a, b) => b.localeCompare(a, undefined, { numeric: true }));
    return texts.length > 1 && texts.every((text, i) => text === sorted[i]);
  };
  const heading = page
    .getByRole('table', { name: 'Services' })
    .getByRole('columnheader', { name: /^Name( |$)/ });
  await heading.click();
  await heading.focus();
  await page.keyboard.press('Enter');
  assert.ok(await inOrder(), 'the rows are not sorted by name');
  await page.evaluate(
    'document.activeElement.blur(); document.getElementById("service-list").title = "old"',
  );
  const old = page.locator('#service-list[title=old]');
  await old.waitFor({ state: 'detached', timeout: soonMs });
  assert.ok(await inOrder(), 'the rows are not sorted any more after a renewal');
  await page.context().close();
}

/** An open page shows changes. */
async function renewal(browser: Browser, manifests: string): Promise<void> {
  const page = await open(browser, '/?service=team-3/cart-7', { viewport: desktop });
  assert.equal(await page.getByText('10.244.77.77:8080').count(), 0);
  addEndpoint(manifests, 'team-3', 'cart-7', '10.244.77.77');
  await page.getByRole('rowheader', { name: '10.244.77.77:8080' }).waitFor({ timeout: soonMs });
  await page.context().close();
}

/** An open page says so when the server no longer answers. */
async function silence(browser: Browser, program: Program): Promise<void> {
  const page = await open(browser, '/', { viewport: desktop });
  assert.equal(await page.getByRole('alert').count(), 0);
  await program.end();
  await page.getByRole('alert').waitFor({ timeout: soonMs });
  await page.context().close();
}
