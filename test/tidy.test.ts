/** Style as a test: what a reader would otherwise have to remember. See CONTRIBUTING.md. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { dirname, extname, join, relative, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';

const root = resolve(import.meta.dirname, '..');
const tracked = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], { cwd: root })
  .toString()
  .split('\n')
  .filter((path) => path !== '');

function files(folder: string, ...extensions: readonly string[]): string[] {
  return tracked.filter((path) => path.startsWith(folder) && extensions.includes(extname(path)));
}

function read(path: string): string {
  return readFileSync(join(root, path), 'utf8');
}

const typescript = ['src/', 'test/', 'bench/', 'scripts/'].flatMap((folder) =>
  files(folder, '.ts'),
);
const cpp = ['native/', 'bench/', 'test/'].flatMap((folder) => files(folder, '.cc', '.h'));
const generated = (path: string): boolean => path.includes('.gen.');
/** A line of a comment; `*name()` is a generator. */
const commentLine = /^\s*(\/\/|\/\*|\*(?=[ /]|$)).*$/gm;

/** What each folder of src may import from, besides itself. The flow goes one way. */
const mayImport: Readonly<Record<string, string>> = {
  time: '',
  net: '',
  state: 'net',
  source: 'time net state',
  kernel: 'time net',
  modes: 'time net kernel state',
  conntrack: 'time net kernel state',
  sync: 'time net modes kernel state conntrack',
  config: 'net state modes',
  host: 'time net config modes state kernel',
  takeover: 'time net kernel state modes sync host',
  'fast-path': 'time net kernel state modes host',
  'failure-detection': 'time net kernel state modes host',
  'connection-limits': 'time net kernel state modes host',
  'service-bytes': 'time net kernel state host',
  ask: 'net modes',
  serve:
    'time ask net takeover sync modes connect-time kernel source state config conntrack host ' +
    'service-bytes',
  'connect-time': 'time net kernel state modes sync config host source',
  agent:
    'time net kernel state source modes connect-time conntrack sync config host takeover ' +
    'failure-detection fast-path connection-limits service-bytes serve',
  'tools/preflight': 'net config host kernel modes takeover',
  'tools/shadow': 'net config host kernel modes state takeover',
  'tools/trace': 'ask net host kernel',
  'tools/check': 'ask net host',
  'tools/connectivity': 'net',
  'tools/import': 'config',
  cli:
    'time failure-detection fast-path connection-limits ask net takeover config kernel modes ' +
    'connect-time state source sync serve host conntrack agent tools/preflight tools/shadow ' +
    'tools/trace tools/check tools/connectivity tools/import',
};

/** The folder of `mayImport` that has the file; `path` is relative to src. */
function folderOf(path: string): string | undefined {
  const folders = Object.keys(mayImport).filter((folder) => path.startsWith(`${folder}/`));
  return folders.sort((a, b) => b.length - a.length)[0];
}

function imports(path: string, form = /from '(\.[^']+)'/g): string[] {
  return [...read(path).matchAll(form)].map((match) =>
    relative(join(root, 'src'), resolve(root, dirname(path), match[1]!)),
  );
}

/** The circles in a graph, each as text. */
function circlesIn(graph: ReadonlyMap<string, readonly string[]>): readonly string[] {
  const over = new Set<string>();
  const circles: string[] = [];
  const visit = (node: string, way: readonly string[]): void => {
    if (way.includes(node)) circles.push([...way.slice(way.indexOf(node)), node].join(' → '));
    if (over.has(node) || way.includes(node)) return;
    for (const target of graph.get(node) ?? []) visit(target, [...way, node]);
    over.add(node);
  };
  for (const node of graph.keys()) visit(node, []);
  return circles;
}

describe('the flow', () => {
  it('goes one way: a folder imports only from those that the list allows', () => {
    const wrong: string[] = [];
    for (const path of files('src/', '.ts').filter((one) => one !== 'src/main.ts')) {
      const folder = folderOf(path.slice('src/'.length));
      for (const target of imports(path)) {
        const to = folderOf(target);
        const isAllowed = to === folder || mayImport[folder ?? '']?.split(' ').includes(to ?? '');
        if (isAllowed !== true) wrong.push(`${path} imports ${target}`);
      }
    }
    expect(wrong).toEqual([]);
  });

  it('begins in main.ts, the only file that is in no folder', () => {
    expect(files('src/', '.ts').filter((path) => path.split('/').length === 2)).toEqual([
      'src/main.ts',
    ]);
  });

  it('has no circles, not of types either', () => {
    const graph = new Map(
      files('src/', '.ts').map((path) => [path.slice('src/'.length), imports(path)]),
    );
    expect(circlesIn(graph)).toEqual([]);
  });

  it('has no circles of folders, not of modules either that are loaded late', () => {
    const graph = new Map<string, string[]>();
    for (const path of files('src/', '.ts')) {
      const folder = path.slice('src/'.length).split('/')[0]!;
      const others = imports(path, /(?:from |import\()'(\.[^']+)'/g).map((to) => to.split('/')[0]!);
      const known = graph.get(folder) ?? [];
      graph.set(folder, [...known, ...others.filter((other) => other !== folder)]);
    }
    expect(circlesIn(graph)).toEqual([]);
  });

  it('does not lead the running agent to what runs apart from it, or when it is first asked for', () => {
    const apart = /^(tools|cli\/(ask|bundle|report)|serve\/(page|readers|ask\/(explain|report)))\//;
    const ofAgent = new Set<string>();
    const visit = (path: string): void => {
      if (ofAgent.has(path)) return;
      ofAgent.add(path);
      const isLoaded = /^import (?!type )[^;]*?from '(\.[^']+)'/gm;
      for (const target of imports(`src/${path}`, isLoaded)) visit(target);
    };
    for (const path of ['main.ts', 'cli/run.ts', 'cli/proxy.ts']) visit(path);
    expect([...ofAgent].filter((path) => apart.test(path))).toEqual([]);
    expect(ofAgent.has('agent/app.ts')).toBe(true);
  });

  it('keeps modes apart: none imports from another', () => {
    const wrong: string[] = [];
    const modes = files('src/modes/', '.ts')
      .filter((path) => path.endsWith('/mode.ts') && path !== 'src/modes/mode.ts')
      .map((path) => path.split('/')[2]);
    for (const path of files('src/modes/', '.ts')) {
      const [mode, file] = path.slice('src/modes/'.length).split('/');
      if (file === undefined) continue;
      for (const target of imports(path)) {
        const [folder, other, inside] = target.split('/');
        if (folder === 'modes' && inside !== undefined && other !== mode && modes.includes(other)) {
          wrong.push(`${path} imports ${target}`);
        }
      }
    }
    expect(wrong).toEqual([]);
  });

  it('keeps Node-API out of the folders that speak netlink', () => {
    const wrong = cpp.filter(
      (path) =>
        /^native\/(wire|nft|conntrack|ipvs|route|legacy|protocol|base)\//.test(path) &&
        /<n(ode_)?api\.h>/.test(read(path)),
    );
    expect(wrong).toEqual([]);
  });
});

/** A sentence or two for each message. */
const logTable = 'scripts/log-messages.ts';

describe('unit tests', () => {
  it('do not wait for real time, and neither do their helpers: other folders are for that', () => {
    const reached = new Set<string>();
    const visit = (path: string): void => {
      if (reached.has(path) || !path.startsWith('test/')) return;
      reached.add(path);
      for (const target of imports(path)) visit(join('src', target));
    };
    const apart = /^test\/real-time\/|\.(cost|kernel|image|prometheus|upgrade|vm)\.test\.ts$/;
    const tests = files('test/', '.ts').filter((path) => path.endsWith('.test.ts'));
    for (const path of tests) if (!apart.test(path) && path !== 'test/tidy.test.ts') visit(path);
    const timers = /\bset(Timeout|Interval)\(|timers\/promises|AbortSignal\.timeout/;
    const polls = /\bvi\.wait(For|Until)\(|\.poll\(/;
    const waits = new RegExp(`${timers.source}|${polls.source}`);
    expect([...reached].filter((path) => waits.test(read(path)))).toEqual([]);
    expect(reached.has('test/fake/kernel.ts')).toBe(true);
  });
});

/** In src/agent, types included. The number only goes down. */
const closuresMost = 15;

/** Lines of each room. They only go down: the commit that raises one says why. */
const mostLines: Readonly<Record<string, number>> = {
  'src/agent': 1666,
  'src/ask': 1725,
  'src/cli': 5464,
  'src/config': 4537,
  'src/connect-time': 3004,
  'src/connection-limits': 1104,
  'src/conntrack': 1392,
  'src/failure-detection': 1555,
  'src/fast-path': 575,
  'src/host': 2658,
  'src/kernel': 6594,
  'src/modes': 14_346,
  'src/net': 1445,
  'src/serve': 14_900,
  'src/service-bytes': 241,
  'src/source': 8671,
  'src/state': 6606,
  'src/sync': 4725,
  'src/takeover': 1307,
  'src/time': 419,
  'src/tools': 5153,
  test: 121_051,
};

describe('budgets', () => {
  it('files are short enough to read in one go', () => {
    const long = (paths: readonly string[], most: number): string[] =>
      paths.filter((path) => !generated(path) && read(path).split('\n').length - 1 > most);
    expect(
      long(
        typescript.filter((path) => !path.startsWith('test/') && path !== logTable),
        600,
      ),
    ).toEqual([]);
    expect(long(cpp, 500)).toEqual([]);
  });

  it('rooms take no more lines than their budget, which goes down with them', () => {
    const lines: Record<string, number> = {};
    for (const path of tracked) {
      const [room] = /^(test|src\/[^/]+)(?=\/)/.exec(path) ?? [];
      if (room === undefined) continue;
      lines[room] = (lines[room] ?? 0) + read(path).split('\n').length - 1;
    }
    const over = Object.entries(lines).filter(([room, count]) => count > (mostLines[room] ?? 0));
    expect(over).toEqual([]);
  });

  it('files export few things, except the words of nft, and constants of one value', () => {
    const exported =
      /^export (?:default|async|abstract|function|class|const(?! \w+ = ['"\d])|let|interface|type)\b/gm;
    const many = files('src/', '.ts')
      .filter((path) => path !== 'src/kernel/nft/rule.ts')
      .filter((path) => (read(path).match(exported)?.length ?? 0) > 25);
    expect(many).toEqual([]);
  });

  it('classes have few fields that change', () => {
    const field = /^ {2}(?!readonly\b|static\b)#?\w+[!?]?(?:: | = |;)/gm;
    const many = files('src/', '.ts').flatMap((path) =>
      [...read(path).matchAll(/^(?:export )?class (\w+)[\s\S]*?^\}/gm)]
        .filter(([body]) => (body.match(field)?.length ?? 0) > 6)
        .map(([, name]) => name),
    );
    expect(many).toEqual([]);
  });

  it('parts of the agent get objects, and few functions that ask one', () => {
    const closures = files('src/agent/', '.ts').map((path) => read(path).split('() =>').length - 1);
    expect(closures.reduce((a, b) => a + b)).toBeLessThanOrEqual(closuresMost);
  });

  it('exports nothing that no other file imports', () => {
    const imported = new Map<string, Set<string>>();
    for (const path of typescript) {
      for (const [, names, file] of read(path).matchAll(
        /^(?:import|export) (?:type )?\{([^}]*)\} from '(\.[^']+)'/gm,
      )) {
        const target = relative(root, resolve(root, dirname(path), file!));
        const known = imported.get(target) ?? new Set();
        for (const name of names!.split(',')) {
          known.add(
            name
              .trim()
              .replace(/^type /, '')
              .replace(/ as \w+$/, ''),
          );
        }
        imported.set(target, known);
      }
    }
    const declared =
      /^export (?:async |abstract )?(?:function\*?|class|const|interface|type) (\w+)/gm;
    const atRunTime = new Set(
      typescript.flatMap((path) =>
        [...read(path).matchAll(/\bimport\(\s*'(\.[^']+)'/g)].map(([, file]) =>
          relative(root, resolve(root, dirname(path), file!)),
        ),
      ),
    );
    const kept = files('src/', '.ts').filter((path) => !atRunTime.has(path));
    const unused = kept.flatMap((path) =>
      [...read(path).matchAll(declared)]
        .map((match) => match[1]!)
        .filter((name) => imported.get(path)?.has(name) !== true)
        .map((name) => `${path}: ${name}`),
    );
    expect(unused).toEqual([]);
  });

  it('lines fit into 100 columns', () => {
    const wide: string[] = [];
    for (const path of [...typescript, ...cpp]) {
      if (generated(path)) continue;
      read(path)
        .split('\n')
        .forEach((line, i) => {
          // A string that must stay whole, or a line of nft's language, may be longer: formatters
          // leave it alone, and so do we.
          const whole = /['"`]|https?:|\b(l4proto|typeof)\b/.test(line);
          if (line.length > 100 && !whole) {
            wide.push(`${path}:${i + 1}`);
          }
        });
    }
    expect(wide).toEqual([]);
  });
});

describe('the source', () => {
  it('has no leftovers: no FIXME, TODO, XXX, no debugging', () => {
    // Assembled, so that this file does not find itself.
    const leftover = new RegExp(
      `\\b(${['TO', 'FIX'].map((a, i) => a + ['DO', 'ME'][i]).join('|')}|XXX)\\b`,
    );
    const wrong = [...files('src/', '.ts'), ...cpp].filter((path) => leftover.test(read(path)));
    expect(wrong).toEqual([]);
  });

  it('can be run by Node as it is, without a build', () => {
    const wrong = files('src/', '.ts').filter((path) => {
      try {
        stripTypeScriptTypes(read(path));
        return false;
      } catch {
        return true;
      }
    });
    expect(wrong).toEqual([]);
  });

  it('keeps no state in modules: no `let` at top level, no mutable static in C++', () => {
    const wrong = files('src/', '.ts').filter((path) => /^(export )?let /m.test(read(path)));
    const statics = files('native/', '.cc').filter((path) =>
      /^static (?!const|inline|_assert)\w+[^(]*;/m.test(read(path)),
    );
    expect([...wrong, ...statics]).toEqual([]);
  });

  it('prints in one place, which lets only printable text through', () => {
    const allowed = /^src\/cli\/terminal\.ts/;
    const wrong = files('src/', '.ts').filter(
      (path) =>
        !allowed.test(path) &&
        /process\.(stdout|stderr)\.?\b(?!\.isTTY)|\bconsole\./.test(
          read(path).replace(commentLine, ''),
        ),
    );
    expect(wrong).toEqual([]);
  });

  it('starts no program, except the credential plugin of a kubeconfig', () => {
    const allowed = /^src\/source\/kubernetes\/exec-plugin\.ts/;
    const wrong = files('src/', '.ts').filter(
      (path) => !allowed.test(path) && /node:child_process/.test(read(path)),
    );
    expect(wrong).toEqual([]);
  });

  it('generates what C++ reads from the schema that TypeScript writes', () => {
    const output = execFileSync(process.execPath, ['scripts/generate.ts', '--check'], {
      cwd: root,
    });
    expect(output.toString()).not.toMatch(/stale/);
  });
});

interface Prose {
  readonly path: string;
  readonly line: number;
  readonly text: string;
}

/** Lines of documents, and those of comments. */
function comments(): Prose[] {
  const sources = [...typescript, ...cpp].filter((path) => path !== 'test/tidy.test.ts');
  return [...tracked.filter((path) => extname(path) === '.md'), ...sources].flatMap((path) =>
    read(path)
      .split('\n')
      .map((text, i) => ({ path, line: i + 1, text }))
      .filter(({ text }) => extname(path) === '.md' || text.match(commentLine) !== null),
  );
}

/** Files of this repository that a line names: sources and documents, with or without folders. */
function citedFiles(text: string): string[] {
  const words = text
    .replace(/\bhttps?:\S+/g, '')
    .matchAll(/(?<![\w*./-])[./]*\w[\w./-]*\.(?:ts|cc|md)\b/g);
  return [...words].map((match) => match[0].replace(/^(\.{0,2}\/)+/, ''));
}

function isFile(known: string, cited: string): boolean {
  return known === cited || known.endsWith(`/${cited}`);
}

/** Names in a comment that look like our own: `Type.member`, `call()`, `camelCase`. */
function citedNames(text: string): string[] {
  return [...text.matchAll(/`([A-Za-z#][A-Za-z0-9.#]*(?:\(\))?)`/g)]
    .map(([, name]) => name!)
    .filter((name) => /[a-z]/.test(name) && /[A-Z(]/.test(name) && !/\.(ts|cc|h)$/.test(name));
}

/** `5.3` and `10` of "behaviour document 5.3, step 2, and 10"; an edge case `12.40` is in `12`. */
function citedSections(text: string): string[] {
  return [...text.matchAll(/behaviour document(?:,? (?:appendix|section))? ([^();:]*)/gi)].flatMap(
    (match) =>
      [...match[1]!.replace(/(step|KEP-?) ?\d+/g, '').matchAll(/\b(?:\d+(?:\.\d+)?|[A-C](?=\d))/g)]
        .map(([section]) => section)
        .map((section) => section.replace(/^12\..*/, '12')),
  );
}

/** Whether a link in the document `path` leads somewhere; a heading's anchor is made as forges do. */
function leads(path: string, link: string): boolean {
  const [file = '', anchor] = link.split('#');
  const target = file === '' ? path : relative(root, resolve(root, dirname(path), file));
  const isThere = tracked.some((known) => known === target || known.startsWith(`${target}/`));
  if (!isThere || anchor === undefined) return isThere;
  const headings = [...read(target).matchAll(/^#+ (.*)$/gm)].map(([, heading]) =>
    heading!
      .toLowerCase()
      .replace(/[^\w -]/g, '')
      .replaceAll(' ', '-'),
  );
  return headings.includes(anchor);
}

/** Words that the glossary has replaced by the field's. */
const givenUp = new RegExp(
  `\\b(${[
    'bell',
    'chores?',
    'conceal',
    'doors?',
    'lanes?',
    'moderator',
    'patient',
    'placeOf',
    'reign',
    'reveal',
    'strangers?',
    'succession',
    'vicinity',
  ].join('|')})\\b`,
  'i',
);

/** Words that plain words replace: "no caller" for "nobody", "in addition" for "beside". */
const unclear = new RegExp(
  `(?<![\\w-])(${[
    '(un)?told',
    '(no|some|every)body',
    'anew',
    'at once',
    'besides?',
    'go(es)? on',
    'meanwhile',
    'so (long|many|much)',
    'tells?',
    'wanted',
    '(is|are) none',
    '(is|are) no(?! (longer|more)\\b)',
  ].join('|')})\\b`,
  'i',
);

/** What may stand for "there is no", which is plain. */
const existence = /\bthere (is|are) no(ne)?\b/gi;

function isUnclear(text: string): boolean {
  return unclear.test(text.replace(existence, ''));
}

/** Places of the unclear texts in `path`: the last group of `pattern` is the text. */
function unclearTexts(path: string, pattern: RegExp): string[] {
  const source = read(path);
  return [...source.matchAll(pattern)]
    .filter((match) => isUnclear(match.at(-1)!.replace(/`[^`]*`|'\w+'/g, '')))
    .map((match) => `${path}:${source.slice(0, match.index).split('\n').length}: ${match.at(-1)}`);
}

/**
 * Documents that are not, or not yet, in plain words: notes and lists of the past, a description
 * of another program, and long ones.
 */
const unfinishedDocuments = new RegExp(
  `^(${['docs/decisions/.*', 'test/lab/README'].join('|')})\\.md$`,
);

describe('the documents', () => {
  it('name every folder of src and native', () => {
    const text = read('docs/internals/code.md');
    const folders = new Set(
      [...files('src/', '.ts'), ...files('native/', '.cc')]
        .map((path) => path.split('/').slice(0, 2).join('/'))
        .filter((path) => extname(path) === ''),
    );
    const missing = [...folders].filter((folder) => !text.includes(`\`${folder}\``));
    expect(missing).toEqual([]);
  });

  it('say where the unit tests of each folder of src are', () => {
    const rows = read('docs/internals/code.md').matchAll(/^\| (`src\/.*`) \| `(test\/.*)` \|$/gm);
    const elsewhere = new Map(
      [...rows].flatMap(([, some, tests]) => some!.match(/src[^`]+/g)!.map((one) => [one, tests!])),
    );
    const isTested = (folder: string, tests: string): boolean =>
      tracked.includes(tests) ||
      files(`${tests}/`, '.ts').some((path) =>
        imports(path).some((one) => `src/${one}`.startsWith(`${folder}/`)),
      );
    const isFound = (folder: string): boolean =>
      elsewhere.has(folder) ||
      isTested(folder, folder.replace('src', 'test/unit')) ||
      (folder.split('/').length > 2 && isFound(dirname(folder)));
    const folders = new Set(files('src/', '.ts').map(dirname));
    expect([...folders].filter((folder) => folder !== 'src' && !isFound(folder))).toEqual([]);
    expect([...elsewhere].filter((row) => !isTested(...row))).toEqual([]);
  });

  it('have what comments and documents cite: files, decisions, sections of the behaviour document', () => {
    const behaviour = read('docs/internals/kube-proxy-behaviour.md');
    const headings = [...behaviour.matchAll(/^##+ (\d+(?:\.\d+)?)[. ]/gm)];
    const sections = new Set(headings.map((match) => match[1]!));
    const dangling = comments().flatMap(({ path, line, text }) => {
      const missing = [
        ...citedFiles(text).filter((file) => !tracked.some((known) => isFile(known, file))),
        ...citedSections(text).filter((section) => !sections.has(section)),
      ];
      return missing.map((what) => `${path}:${line} cites ${what}`);
    });
    expect(dangling).toEqual([]);
    expect(citedSections('(behaviour document 5.3, step 2, and 99.1)')).toEqual(['5.3', '99.1']);
  });

  it('cite in comments only names that code has', () => {
    const all = new Set<string>();
    /** The words of each file that declares a type. */
    const ofType = new Map<string, Set<string>[]>();
    for (const path of [...typescript, ...cpp, ...files('native/', '.c')]) {
      const code = read(path).replace(commentLine, '');
      const own = new Set(code.match(/\w+/g));
      for (const word of own) all.add(word);
      for (const [, type] of code.matchAll(/\b(?:class|interface|struct|type) ([A-Z]\w*)/g)) {
        ofType.set(type!, [...(ofType.get(type!) ?? []), own]);
      }
    }
    const wrong = comments()
      .filter(({ path }) => /^(src|native)\//.test(path))
      .flatMap(({ path, line, text }) =>
        citedNames(text)
          .filter((name) => {
            const [first, ...members] = name.match(/\w+/g)!;
            const known = ofType.get(first!) ?? [all];
            const isThere = (member: string) => known.some((words) => words.has(member));
            return !all.has(first!) || !members.every(isThere);
          })
          .map((name) => `${path}:${line}: ${name}`),
      );
    expect(wrong).toEqual([]);
  });

  it('have links that lead to files and headings that are there', () => {
    const broken = files('', '.md').flatMap((path) =>
      [...read(path).matchAll(/\]\((?!https?:)([^)\s]+)\)/g)]
        .map((match) => match[1]!)
        .filter((link) => !leads(path, link))
        .map((link) => `${path} links to ${link}`),
    );
    expect(broken).toEqual([]);
    expect(leads('README.md', 'docs/operating.md#no-such-heading')).toBe(false);
  });

  it('have the sections that alerts lead to', () => {
    const urls = [...read('deploy/chart/rules.yaml').matchAll(/runbook_url: (\S+)/g)];
    const broken = urls.map(([, url]) => url!).filter((url) => !leads('README.md', url));
    expect(urls.length).toBeGreaterThan(10);
    expect(broken).toEqual([]);
  });

  it('do without the words that the glossary has replaced', () => {
    const text = read('docs/glossary.md');
    expect(text).toContain('## Words of the code');
    const sources = [...typescript, ...cpp].filter(
      (path) => path !== 'test/tidy.test.ts' && !generated(path),
    );
    const wrong = sources.filter((path) => givenUp.test(read(path)));
    expect(wrong).toEqual([]);
  });

  it('use plain words in comments', () => {
    const wrong = comments().flatMap(({ path, line, text }) =>
      extname(path) !== '.md' && isUnclear(text) ? [`${path}:${line}: ${text.trim()}`] : [],
    );
    expect(wrong).toEqual([]);
  });

  it('use plain words', () => {
    const documents = files('', '.md').filter((path) => !unfinishedDocuments.test(path));
    expect(documents.flatMap((path) => unclearTexts(path, /^(.*)$/gm))).toEqual([]);
  });

  it('use plain words in names of tests', () => {
    const name =
      /(?:\b(?:it|test|describe|property|storyOf)\b(?:\.\w+)*(?:\((?:[^()']|\([^()]*\))*\))?\(\s*|^\s*name: )(['"`])((?:\\.|(?!\1).)*)\1/gm;
    const tests = typescript.filter((path) => path !== 'test/tidy.test.ts');
    expect(tests.flatMap((path) => unclearTexts(path, name))).toEqual([]);
  });

  it('use plain words in what the program and its tools write', () => {
    // A string of several words is for people. `…` in it quotes a value.
    const string = /(?<=^[^/*\n]*)'((?:\\.|[^'\n\\])* (?:\\.|[^'\n\\])*)'/gm;
    const sources = typescript.filter((path) => /^(src|scripts)\//.test(path));
    expect(sources.flatMap((path) => unclearTexts(path, string))).toEqual([]);
  });

  it('name no machine of ours', () => {
    const wrong = tracked.filter((path) => {
      if (path === 'test/tidy.test.ts' || !/\.(md|ts|sh|json|yaml|cc|h)$/.test(path)) return false;
      return new RegExp(`/${'work'}/|registry\\.${'npmjs'}|deb\\.${'debian'}\\.org`).test(
        read(path),
      );
    });
    expect(wrong).toEqual([]);
  });
});
