import { createHash } from 'node:crypto';
import { request } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { resources } from '../../../../src/state/change.ts';
import { type Running, started, web } from '../../app/running.ts';
import { node, service } from '../../state/build.ts';
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

describe('the page', () => {
  it('says in its first sentence that all is well', async () => {
    await running();
    const document = await opened();
    expect(document.texts('title')).toEqual(['node-a: well · Fairlead']);
    expect(document.texts('h1')).toEqual(['Fairlead on node-a']);
    expect(document.texts('p')[0]).toMatch(/^Well\. The 1 Service is in force/);
    expect(document.rows('Families')).toMatchObject([
      { Family: 'IPv4', Phase: 'live', 'Ports in force': '1' },
      { Family: 'IPv6', Phase: 'live', 'Ports in force': '0' },
    ]);
  });

  it('says in its first sentence what is not well, and names what the kernel refuses', async () => {
    await running();
    await refused('other');
    const document = await opened();
    expect(document.texts('title')).toEqual(['node-a: not well · Fairlead']);
    expect(document.texts('p')[0]).toBe('Not well. The kernel refuses 1 Service port.');
    expect(document.rows('Refused by the kernel')).toMatchObject([
      { 'Service port': 'ns/other:http/TCP', Family: 'IPv4', 'In force': 'nothing' },
    ]);
  });

  it('shows a name as it is, whatever is in it', async () => {
    const documents: Document[] = [];
    const hostile = `"'><script>alert(1)</script><img src=x onerror=alert(1)>&lt;<!--`;
    for (const name of ['plain', hostile]) {
      await app?.stop();
      await running();
      await refused(name);
      documents.push(await opened());
    }
    const [plain, document] = documents as [Document, Document];
    const [row] = document.rows('Refused by the kernel');
    expect(row!['Service port']).toBe(`ns/${hostile}:http/TCP`);
    const kinds = ({ elements }: Document) => elements.map(({ tagName }) => tagName);
    expect(kinds(document)).toEqual(kinds(plain));
  });
});

describe('what the page is made of', () => {
  it('is as the standard wants it, with headings and column names in order', async () => {
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

  it('needs no script: what is hidden without it is its own', async () => {
    await running();
    const document = await opened();
    const hidden = document.elements.filter((one) => attribute(one, 'hidden') !== undefined);
    expect(hidden.map((element) => attribute(element, 'id'))).toEqual(['pause', 'silent']);
    const inline = document.elements.flatMap(({ attrs }) => attrs.map(({ name }) => name));
    expect(inline.filter((name) => name === 'style' || name.startsWith('on'))).toEqual([]);
  });

  it('comes from this server alone, and a browser runs nothing else', async () => {
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

  it('can be read in light and in dark', async () => {
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

describe('who opens the page', () => {
  it.each([
    [{ host: 'evil.example' }, 'GET', '/', 403, 'must be an address or localhost'],
    [{ host: 'localhost' }, 'POST', '/', 405, 'method POST is not allowed'],
    [{ host: 'localhost' }, 'GET', '/?wide=1', 400, 'there is no parameter "wide"'],
  ])('with %j by %s %s gets a refusal', async (headers, method, path, status, reason) => {
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
