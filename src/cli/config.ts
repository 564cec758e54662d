/** `fairlead config`: convert other configurations into kube-proxy's, and check a file. */
import { usage } from '../config/commands.ts';
import { convert, type ImportSource, importSources, validateFile } from '../config/import/index.ts';
import { exitCodes } from './exit-codes.ts';
import type { Terminal } from './terminal.ts';

interface ConfigCommandIo {
  readonly stdout: Pick<Terminal, 'write'>;
  readonly stderr: Pick<Terminal, 'write'>;
  readonly readFile: (path: string) => Promise<Uint8Array>;
  readonly readStdin: () => Promise<Uint8Array>;
}

const standardInput = '-';

type Request =
  | { readonly kind: 'convert'; readonly from: ImportSource; readonly path: string }
  | { readonly kind: 'validate'; readonly path: string }
  | { readonly kind: 'misuse'; readonly reason: string };

/** `args` is what follows the word `config`. Resolves to the exit code. */
export async function runConfigCommand(
  args: readonly string[],
  io: ConfigCommandIo,
): Promise<number> {
  const request = readRequest(args);
  if (request.kind === 'misuse') {
    io.stderr.write(`${usage('config')}\nError: ${request.reason}\n`);
    return exitCodes.usage;
  }
  const isInput = request.path === standardInput;
  const path = isInput ? 'standard input' : request.path;
  let bytes: Uint8Array;
  try {
    bytes = await (isInput ? io.readStdin() : io.readFile(path));
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    io.stderr.write(`Error: cannot read ${path}: ${reason}\n`);
    return 1;
  }
  const result =
    request.kind === 'convert' ? convert(request.from, bytes) : validateFile(path, bytes);
  for (const note of result.notes) io.stderr.write(`${note}\n`);
  io.stdout.write(result.text);
  return result.exitCode;
}

function readRequest(args: readonly string[]): Request {
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
  const flag = words.find((word) => word.startsWith('-') && word !== standardInput);
  if (flag !== undefined) return { kind: 'misuse', reason: `unknown flag: ${flag}` };
  const [path, ...more] = words;
  if (path === undefined || more.length > 0) return { kind: 'misuse', reason: 'name one file' };
  return make(path);
}
