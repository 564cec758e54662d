import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { reasonSections } from '../../../../src/ask/problem-reasons.ts';
import type { ServiceList } from '../../../../src/ask/service.ts';
import { runbookSection } from '../../../../src/serve/page/runbook.ts';
import { filterOf, servicesSection } from '../../../../src/serve/page/services.ts';
import type { Traffic } from '../../../../src/serve/service-counters.ts';
import { type Change, resources } from '../../../../src/state/change.ts';
import { type Running, started, web } from '../../agent/running.ts';
import { node, ready, service, slice, unready } from '../../state/build.ts';
import { quiet } from '../../sync/double.ts';
import { attribute, Document, textOf } from './document.ts';

let app: Running;

afterEach(() => app.stop());

async function running(): Promise<void> {
  app = await started('--manifests=/anywhere', '--proxy-mode=nftables');
  app.source.say(...web, { kind: 'node', node: node() });
  app.source.listed(...resources);
  await quiet();
}

async function opened(query = ''): Promise<Document> {
  return new Document(await (await app.get('metrics', `/${query}`)).text());
}

/** The kernel refuses a Service of this name. */
async function refused(name: string): Promise<void> {
  app.kernel.failNext({ code: 'ENOSPC', forKey: '10.96.0.2', times: Number.POSITIVE_INFINITY });
  app.source.say({ kind: 'service', service: service({ name, clusterIPs: ['10.96.0.2'] }) });
  await quiet();
}

describe('the web page', () => {
  it('begins with a sentence that the proxy is healthy', async () => {
    await running();
    expect((await opened()).texts('p')[0]).toBe('Proxy healthy. The only Service is in force.');
    app.source.say({ kind: 'service', service: service({ externalIPs: ['203.0.113.1'] }) });
    await quiet();
    const document = await opened();
    expect(document.texts('title')).toEqual(['node-a: healthy · Fairlead']);
    expect(document.texts('h1')).toEqual(['Fairlead on node-a']);
    expect(document.texts('p')[0]).toMatch(
      /^Proxy healthy\. The only Service is in force; the last change, \d+s ago, took \d+ ms\.$/,
    );
    expect(document.rows('Families')).toMatchObject([
      { Family: 'IPv4', Phase: 'live', 'In force': '1' },
      { Family: 'IPv6', Phase: 'live', 'In force': '0' },
    ]);
  });

  it('begins with a sentence that names the problems, and shows what the kernel refuses', async () => {
    await running();
    await refused('other');
    const document = await opened();
    expect(document.texts('title')).toEqual(['node-a: unhealthy · Fairlead']);
    expect(document.texts('p')[0]).toBe(
      'Proxy unhealthy. The kernel refuses 1 Service port. What to do. 1 Service has problems.',
    );
    expect(hrefOf(document, 'What to do')).toBe('/?runbook#the-kernel-refuses-a-service');
    expect(document.rows('Refused by the kernel')).toMatchObject([
      { 'Set aside': 'ns/other:http', Family: 'IPv4', Before: 'none' },
    ]);
  });
});

/** Services ns/web-0 and on; the last one has no endpoint. */
function many(count: number): Change[] {
  return Array.from({ length: count }, (_, i): Change[] => {
    const name = `web-${i}`;
    const clusterIPs = [`10.97.${i >> 8}.${i & 0xff}`];
    const isLast = i === count - 1;
    const fields = { key: `ns/${name}-abcde`, service: `ns/${name}` };
    return [
      { kind: 'service', service: service({ name, clusterIPs }) },
      { kind: 'slice', slice: slice({ '10.244.0.2': isLast ? unready : ready }, fields) },
    ];
  }).flat();
}

async function withMany(count: number): Promise<void> {
  await running();
  app.source.say(...many(count));
  await quiet();
}

function hrefOf(document: Document, text: string): string | undefined {
  const link = document.all('a').find((one) => textOf(one) === text);
  return link && attribute(link, 'href');
}

describe('the list of Services on the page', () => {
  it('has a hundred per page', async () => {
    await withMany(150);
    const first = await opened();
    expect(first.rows('Services')).toHaveLength(100);
    expect(first.rows('Services')[0]).toMatchObject({ Name: 'web-149', State: 'not ready' });
    expect(first.rows('Services')[2]).toEqual({
      ...{ Name: 'web-0', Namespace: 'ns', Type: 'ClusterIP', 'Cluster-IP': '10.97.0.0' },
      ...{ Ports: '80/TCP', Used: '1/1', State: 'in force' },
    });
    expect(hrefOf(first, 'First page')).toBeUndefined();
    const second = await opened(hrefOf(first, 'Next page')!.slice(1));
    expect(second.rows('Services')).toHaveLength(51);
    expect(hrefOf(second, 'Next page')).toBeUndefined();
    expect(hrefOf(second, 'First page')).toBe('/?#services');
  });

  it('has the connections a second of each Service where they are counted', async () => {
    await withMany(2);
    const answer = await app.get('metrics', '/fairlead/v1/services');
    const list = (await answer.json()) as ServiceList;
    const traffic = { readAtMs: 0, services: [] };
    const services = new Map([['ns/web-1', 12.34]]);
    const rates = { connections: 12.34, refusals: 0, services };
    const shown = (counted?: Traffic) => {
      const filter = filterOf(new URLSearchParams());
      return new Document(servicesSection(filter, list, counted, 0).text)
        .rows('Services')
        .map((row) => [row.Name, row['Connections/s']]);
    };
    expect(shown({ ...traffic, rates })).toEqual([
      ['web', '0.0'],
      ['web-0', '0.0'],
      ['web-1', '12.3'],
    ]);
    expect(shown(traffic)[0]).toEqual(['web', '…']);
    expect(shown()[0]).toEqual(['web', undefined]);
  });

  it.each([
    ['?q=-1', 11],
    ['?q=web-%3F', 10],
    ['?namespace=ns&q=&state=', 21],
    ['?namespace=other', 0],
    ['?state=unhealthy', 1],
    ['?state=unhealthy&q=web-3', 0],
  ])('finds with %s %d Services', async (query, count) => {
    await withMany(20);
    const document = await opened(query);
    expect(document.rows('Services')).toHaveLength(count);
    if (count === 1) expect(document.rows('Services')[0]!.State).toBe('not ready');
    const given = new URLSearchParams(query);
    for (const input of document.all('input')) {
      const value = given.get(attribute(input, 'name')!) ?? '';
      expect(attribute(input, 'value')).toBe(value);
    }
  });

  it('links to a Service, with its endpoints and why one of them is not used', async () => {
    await withMany(20);
    const first = await opened(hrefOf(await opened(), 'web-0')!.slice(1));
    expect(first.texts('title')).toEqual(['ns/web-0 on node-a · Fairlead']);
    expect(first.texts('h2')[0]).toBe('ns/web-0');
    expect(first.texts('p')[0]).toBe('No known problem. All of it is in force.');
    expect(first.rows('Frontends of http 80/TCP, IPv4')).toEqual([
      { Frontend: 'clusterIP', At: '10.97.0.0:80', 'Goes to': '1 endpoint' },
    ]);
    expect(first.rows('Recent changes')).toMatchObject([{ What: 'came', Endpoints: '0 to 1' }]);
    const last = await opened('?service=ns/web-19');
    expect(last.texts('p')[0]).toMatch(
      /^Unhealthy\. .* its only endpoint is not ready\. What to do$/,
    );
    expect(last.rows('Endpoints of http 80/TCP, IPv4')).toMatchObject([
      { Endpoint: '10.244.0.2:8080', 'Used by': 'none', 'Why not': 'is not ready' },
    ]);
  });

  it('shows Services with problems first, and each Service once, over all pages', async () => {
    await withMany(250);
    app.source.say(
      ...[...Array(120).keys()].map((i): Change => {
        const fields = { key: `ns/web-${2 * i}-abcde`, service: `ns/web-${2 * i}` };
        return { kind: 'slice', slice: slice({ '10.244.0.2': unready }, fields) };
      }),
    );
    await quiet();
    const rows: { readonly Name?: string; readonly State?: string }[] = [];
    for (let next: string | undefined = '/'; next !== undefined; ) {
      const document = await opened(next.slice(1));
      rows.push(...document.rows('Services'));
      next = hrefOf(document, 'Next page');
    }
    expect(new Set(rows.map(({ Name }) => Name)).size).toBe(251);
    const bad = rows.map(({ State }) => State === 'not ready');
    expect(bad.lastIndexOf(true)).toBe(120);
    expect(bad.filter(Boolean)).toHaveLength(121);
    const others = rows.slice(121).map(({ Name }) => Name!);
    const numeric = (a: string, b: string) => a.localeCompare(b, 'en', { numeric: true });
    expect(others).toEqual(others.toSorted(numeric));
  });

  it('shows pods and answers of one Service on request, and does not renew them', async () => {
    await withMany(2);
    const plain = await opened('?service=ns/web-0');
    expect(plain.all('section').map((one) => attribute(one, 'id'))).toEqual(['service']);
    const more = await opened(hrefOf(plain, 'With names of pods and answers')!.slice(1));
    expect(more.all('section').map((one) => attribute(one, 'data-live'))).toEqual([undefined]);
    expect(hrefOf(more, 'Follow it')).toBe('/?service=ns%2Fweb-0');
  });

  it('finds a Service without its namespace, as commands do', async () => {
    await withMany(2);
    expect((await opened('?service=web-1')).texts('h2')[0]).toBe('ns/web-1');
  });

  it('shows recent changes, the latest first', async () => {
    await withMany(20);
    app.source.say({ kind: 'service-gone', key: 'ns/web-3' });
    await quiet();
    const document = await opened();
    const rows = document.rows('Recent changes');
    expect(rows).toHaveLength(15);
    expect(rows[0]).toMatchObject({ Service: 'ns/web-3', What: 'went', Endpoints: '1 to 0' });
    const more = await opened(hrefOf(document, 'More changes')!.slice(1));
    expect(more.rows('Recent changes')).toHaveLength(21);
  });

  it.each([
    ['?service=ns/none', 404, /^this proxy serves no Service ns\/none: /],
    ['?service=none', 404, /^this proxy serves no Service none: /],
    ['?state=bad', 400, /^state must be unhealthy, not "bad"$/],
    ['?changes=0', 400, /^changes must be a number from 1 to 200, not "0"$/],
  ])('of %s gets status %d', async (query, status, reason) => {
    await running();
    const response = await app.get('metrics', `/${query}`);
    expect(response.status).toBe(status);
    const document = new Document(await response.text());
    expect(document.texts('h2')).toEqual(['No answer']);
    expect(document.texts('p')[0]).toMatch(reason);
  });
});

describe('the tiles of the page', () => {
  it('count Services and those with problems', async () => {
    await withMany(20);
    const document = await opened();
    expect(document.texts('dt').slice(0, 2)).toEqual(['Services', 'with problems']);
    expect(document.texts('dd').slice(0, 2)).toEqual(['21', '1']);
    expect(hrefOf(document, '1')).toBe('/?state=unhealthy#services');
  });
});

describe('the front page', () => {
  it('begins with problems of Services, what to do, and what was counted lately', async () => {
    await withMany(20);
    const document = await opened();
    expect(document.texts('li')[0]).toMatch(
      /^ns\/web-19 not ready .* its only endpoint is not ready\. What to do$/,
    );
    expect(hrefOf(document, 'ns/web-19')).toBe('/?service=ns%2Fweb-19');
    expect(document.texts('dd')[2]).toMatch(/^20 changes, at most \d+ in half a minute$/);
    expect(document.texts('a')).not.toContain('All Services with problems');
    for (let i = 0; i < 10; i += 1) {
      const fields = { key: `ns/web-${i}-abcde`, service: `ns/web-${i}` };
      app.source.say({ kind: 'slice', slice: slice({ '10.244.0.2': unready }, fields) });
    }
    await quiet();
    const many = await opened();
    expect(many.texts('li').filter((text) => text.includes('not ready'))).toHaveLength(5);
    expect(hrefOf(many, 'All Services with problems')).toBe('/?state=unhealthy#services');
  });
});

describe('the form of the page that explains a packet', () => {
  it('repeats the question and answers in steps', async () => {
    await withMany(1);
    const document = await opened('?to=ns/web-0:80&from=node');
    expect(document.all('input').map((input) => attribute(input, 'value'))).toEqual([
      'ns/web-0:80',
      'node',
    ]);
    expect(document.texts('dd').slice(0, 2)).toEqual(['to 10.97.0.0:80/TCP', 'rejected']);
    expect(hrefOf(document, 'What to do')).toBe('/?runbook#from-the-node');
    expect(document.all('ol')).toHaveLength(1);
  });

  it('is filled in on the page of a Service', async () => {
    await running();
    const document = await opened('?service=ns/web');
    expect(attribute(document.all('input')[0]!, 'value')).toBe('ns/web:80');
  });

  it('names the mistake in a question', async () => {
    await running();
    const response = await app.get('metrics', '/?to=ns/none:80');
    expect(response.status).toBe(404);
    expect(new Document(await response.text()).texts('h2')).toEqual(['No answer']);
  });
});

describe('the runbook on the page', () => {
  it('has the section of each problem, and of each link in it', async () => {
    await running();
    await refused('other');
    const link = hrefOf(await opened('?service=ns/other'), 'What to do')!;
    const runbook = await opened(link.slice(1).split('#')[0]);
    expect(runbook.errors).toEqual([]);
    const ids = runbook.elements.flatMap((element) => attribute(element, 'id') ?? []);
    expect(new Set(ids).size).toBe(ids.length);
    const within = runbook
      .all('a')
      .flatMap((one) => /^#(.*)/.exec(attribute(one, 'href')!)?.[1] ?? []);
    expect(within.length).toBeGreaterThan(20);
    const named = [...within, link.split('#')[1], ...Object.values(reasonSections)];
    expect(named.filter((one) => !ids.includes(one!))).toEqual([]);
  });

  it('contains every command and every row of the document', async () => {
    await running();
    const text = textOf((await opened('?runbook')).all('main')[0]!);
    const runbook = readFileSync('docs/runbook.md', 'utf8');
    const lines = runbook.split('\n').map((line) => line.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1'));
    const words = lines.flatMap((line) => line.match(/[A-Za-z]{4,}/g) ?? []);
    expect(words.length).toBeGreaterThan(2000);
    expect(words.filter((word) => !text.includes(word))).toEqual([]);
    expect(text).not.toMatch(/\]\(|```/);
    expect(text).toContain('what it needs (operating.md)');
  });

  it('is missing from an installation without the file', async () => {
    await expect(runbookSection('/nowhere/runbook.md')).rejects.toThrow(
      'the runbook is not part of this installation: /nowhere/runbook.md: ENOENT',
    );
  });
});

describe('a name on the page', () => {
  const hostile = `"'><script>alert(1)</script><img src=x onerror=alert(1)>&lt;<!--`;
  const pages = (name: string) => ({
    'the first page': '',
    'the page of the Service': `?${new URLSearchParams({ service: `ns/${name}` })}`,
    'the search': `?${new URLSearchParams({ namespace: 'ns', q: name })}`,
    'a question': `?${new URLSearchParams({ to: `none/${name}:80` })}`,
    'a refusal': `?${new URLSearchParams({ service: `none/${name}` })}`,
  });

  it.each(Object.keys(pages('')) as (keyof ReturnType<typeof pages>)[])(
    'is text, in the direction of the page, whatever it contains: %s',
    async (page) => {
      const documents: Document[] = [];
      // The last character turns the direction of what follows.
      for (const name of ['plain', `${hostile}\u202e`]) {
        await app?.stop();
        await running();
        await refused(name);
        documents.push(await opened(pages(name)[page]));
      }
      const [plain, document] = documents as [Document, Document];
      const kinds = ({ elements }: Document) => elements.map(({ tagName }) => tagName);
      expect(kinds(document)).toEqual(kinds(plain));
      expect(document.errors).toEqual([]);
      const [body] = document.all('body');
      const values = document.all('input').map((input) => attribute(input, 'value'));
      expect([textOf(body!), ...values].join(' ')).toContain(`${hostile}\\u202e`);
    },
  );
});

describe('the HTML of the page', () => {
  it('is valid, with headings and column headers in order', async () => {
    await running();
    await refused('other');
    const document = await opened();
    expect(document.errors).toEqual([]);
    const [root] = document.all('html');
    expect(attribute(root!, 'lang')).toBe('en');
    const levels = document.all('h1', 'h2', 'h3').map(({ tagName }) => Number(tagName[1]));
    expect(levels[0]).toBe(1);
    levels.slice(1).forEach((level, i) => {
      expect(level === 1 || level > levels[i]! + 1).toBe(false);
    });
    for (const cell of document.all('th')) expect(attribute(cell, 'scope')).toMatch(/^(col|row)$/);
    for (const cell of document.all('table')) expect(attribute(cell, 'aria-label')).not.toBe('');
    const ids = document.elements.flatMap((element) => attribute(element, 'id') ?? []);
    expect(new Set(ids).size).toBe(ids.length);
  });

  it('works without the script, whose controls are hidden then', async () => {
    await running();
    const document = await opened();
    const hidden = document.elements.filter((one) => attribute(one, 'hidden') !== undefined);
    expect(hidden.map((element) => attribute(element, 'id'))).toEqual(['pause', 'silent']);
    const inline = document.elements.flatMap(({ attrs }) => attrs.map(({ name }) => name));
    expect(inline.filter((name) => name === 'style' || name.startsWith('on'))).toEqual([]);
  });

  it('loads only from this server, and runs no other script', async () => {
    await running();
    const document = await opened();
    const links = document.elements.flatMap((element) =>
      ['src', 'href', 'action'].flatMap((name) => attribute(element, name) ?? []),
    );
    for (const link of links) expect(link).toMatch(/^(\/(?!\/)|#|\?)/);
    const policy = (await app.get('metrics', '/')).headers.get('content-security-policy')!;
    for (const [tag, directive] of [
      ['style', 'style-src'],
      ['script', 'script-src'],
    ] as const) {
      const [element, ...others] = document.all(tag);
      expect(others).toEqual([]);
      const [content] = element!.childNodes;
      const text = content !== undefined && 'value' in content ? content.value : '';
      const hash = createHash('sha256').update(text).digest('base64');
      expect(policy).toContain(`${directive} 'sha256-${hash}';`);
    }
    expect(policy).toMatch(/^default-src 'none';/);
    expect(policy).not.toContain('unsafe');
  });

  it('has a light and a dark style', async () => {
    await running();
    const [style] = (await opened()).all('style');
    const [light, dark] = textOf(style!.childNodes[0]!).split('prefers-color-scheme: dark');
    for (const text of [light!, dark!]) {
      const colour = (name: string) => new RegExp(`--${name}: #(\\w+)`).exec(text)![1]!;
      for (const back of ['back', 'shade']) {
        for (const name of ['text', 'dim', 'link', 'good', 'bad']) {
          expect(contrast(colour(name), colour(back)), `${name} on ${back}`).toBeGreaterThan(4.5);
        }
      }
    }
  });
});

describe('access to the page', () => {
  it.each([
    [{ host: 'evil.example' }, 'GET', '/', 403, 'must be an address or localhost'],
    [{ host: 'localhost' }, 'POST', '/', 405, 'method POST is not allowed'],
    [{ host: 'localhost' }, 'GET', '/?wide=1', 400, 'unknown parameter "wide"'],
  ])('with %j from %s %s is rejected', async (headers, method, path, status, reason) => {
    await running();
    const { port } = app.config.metricsBindAddress!;
    const answer = await new Promise<{ status: number | undefined; type: unknown; text: string }>(
      (resolve, reject) => {
        request({ port, path, method, headers }, async (response) => {
          const parts = await response.setEncoding('utf8').toArray();
          const { 'content-type': type } = response.headers;
          resolve({ status: response.statusCode, type, text: parts.join('') });
        })
          .once('error', reject)
          .end();
      },
    );
    expect(answer).toEqual({
      status,
      type: 'text/plain; charset=utf-8',
      text: expect.stringContaining(reason),
    });
  });
});

/** As WCAG 2.2 defines it, of colours like `1b1f24` or `fff`. */
function contrast(a: string, b: string): number {
  const [light, dark] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (light! + 0.05) / (dark! + 0.05);
}

function luminance(colour: string): number {
  const digits = colour.length === 3 ? colour.replace(/./g, '$&$&') : colour;
  const [red, green, blue] = [0, 2, 4].map((at) => {
    const value = Number.parseInt(digits.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red! + 0.7152 * green! + 0.0722 * blue!;
}
