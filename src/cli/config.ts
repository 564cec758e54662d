/** `fairlead config`: convert other configurations into kube-proxy's, and check a file. */
import { convert, type ImportSource, importSources, validateFile } from '../config/import/index.ts';

export interface ConfigCommandIo {
  readonly stdout: { write(text: string): unknown };
  readonly stderr: { write(text: string): unknown };
  readonly readFile: (path: string) => Promise<Uint8Array>;
}

const usage = `Usage:
  fairlead config convert --from ${importSources.join('|')} FILE
          Print FILE as a KubeProxyConfiguration; what became of each field goes to stderr.
  fairlead config validate FILE
          Check a KubeProxyConfiguration as a start with --config would.
`;

type Request =
  | { readonly kind: 'help' }
  | { readonly kind: 'convert'; readonly from: ImportSource; readonly path: string }
  | { readonly kind: 'validate'; readonly path: string }
  | { readonly kind: 'misuse'; readonly reason: string };

/** `args` is what follows the word `config`. Resolves to the exit code. */
export async function runConfigCommand(
  args: readonly string[],
  io: ConfigCommandIo,
): Promise<number> {
  const request = readRequest(args);
  if (request.kind === 'help') {
    io.stdout.write(usage);
    return 0;
  }
  if (request.kind === 'misuse') {
    io.stderr.write(`${usage}\nError: ${request.reason}\n`);
    return 1;
  }
  let bytes: Uint8Array;
  try {
    bytes = await io.readFile(request.path);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    io.stderr.write(`Error: cannot read ${request.path}: ${reason}\n`);
    return 1;
  }
  const result =
    request.kind === 'convert' ? convert(request.from, bytes) : validateFile(request.path, bytes);
  for (const note of result.notes) io.stderr.write(`${note}\n`);
  io.stdout.write(result.text);
  return result.exitCode;
}

function readRequest(args: readonly string[]): Request {
  if (args.some((word) => word === '-h' || word === '--help')) return { kind: 'help' };
  const [verb, ...rest] = args;
  if (verb === 'validate') return withOneFile(rest, (path) => ({ kind: 'validate', path }));
  if (verb !== 'convert') {
    const reason = verb === undefined ? 'say convert or validate' : `unknown command "${verb}"`;
    return { kind: 'misuse', reason };
  }
  const words = rest.flatMap((word) =>
    word.startsWith('--from=') ? ['--from', word.slice(7)] : [word],
  );
  const flag = words.indexOf('--from');
  const source = importSources.find((known) => flag >= 0 && known === words[flag + 1]);
  if (source === undefined) {
    return { kind: 'misuse', reason: `--from must be one of ${importSources.join(', ')}` };
  }
  const files = words.filter((_, index) => index !== flag && index !== flag + 1);
  return withOneFile(files, (path) => ({ kind: 'convert', from: source, path }));
}

function withOneFile(words: readonly string[], make: (path: string) => Request): Request {
  const [path, ...more] = words;
  if (path === undefined || more.length > 0) return { kind: 'misuse', reason: 'name one file' };
  if (path.startsWith('-')) return { kind: 'misuse', reason: `unknown flag: ${path}` };
  return make(path);
}
