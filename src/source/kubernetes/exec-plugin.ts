/**
 * Runs a user's credential plugin (client.authentication.k8s.io, ExecCredential). client-node's own
 * code waits for ever for a plugin that hangs, does not set KUBERNETES_EXEC_INFO, and takes 0.9 s
 * and 85 MB to load.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import type { Readable } from 'node:stream';
import {
  FieldReader,
  isRawObject,
  objectOf,
  type RawObject,
  tryJSON,
} from '../decode/field-reader.ts';

/** The credentials from a plugin. */
export interface PluginOutput {
  readonly authorization: string | undefined;
  readonly certificate: Buffer | undefined;
  readonly key: Buffer | undefined;
}

/** For metrics, in the words of client-go. */
export type PluginEvent =
  | {
      /** A run is over. */
      readonly kind: 'plugin-call';
      readonly status: 'no_error' | 'plugin_execution_error' | 'plugin_not_found_error';
      /** The exit code; 1 if it was not started, -1 if it was killed. */
      readonly code: number;
    }
  | {
      /** It gave a certificate, or none any more. */
      readonly kind: 'plugin-certificate';
      readonly notAfterMs: number | undefined;
      /** The age of the one before, if that was another one. */
      readonly replacedAgeMs: number | undefined;
    };

type PluginCall = Extract<PluginEvent, { kind: 'plugin-call' }>;

class PluginError extends Error {
  readonly call: PluginCall;

  constructor(message: string, status: PluginCall['status'], code: number) {
    super(message);
    this.call = { kind: 'plugin-call', status, code };
  }
}

interface Certificate {
  readonly text: string;
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
}

type Child = ChildProcessByStdio<null, Readable, Readable>;

/** A credential takes some kilobytes. */
const outputBytesMax = 1024 * 1024;

/** The `exec` part of a user. */
export class ExecPlugin {
  readonly #command: string;
  readonly #args: readonly string[];
  readonly #environment: Readonly<Record<string, string>>;
  readonly #timeoutMs: number;
  readonly #observer: (event: PluginEvent) => void;
  /** The last one that it gave. */
  #certificate: Certificate | undefined;
  #credential: { readonly output: PluginOutput; readonly expiresAtMs: number } | undefined;
  /** The current run. Concurrent callers get its result. */
  #running: Promise<PluginOutput> | undefined;
  #child: Child | undefined;

  /** Throws a one-line Error if `exec` can't be run. After `timeoutMs` a run is killed. */
  constructor(exec: RawObject, timeoutMs: number, observer?: (event: PluginEvent) => void) {
    this.#observer = observer ?? (() => {});
    const fields = new FieldReader('exec');
    const apiVersion = fields.text(exec.apiVersion, 'apiVersion') ?? '';
    this.#command = fields.text(exec.command, 'command') ?? '';
    this.#args = fields.list(exec.args, 'args').map(String);
    this.#environment = {
      ...environmentOf(fields, exec.env),
      // kubectl sets this for a plugin that must not be interactive.
      KUBERNETES_EXEC_INFO: JSON.stringify({
        kind: 'ExecCredential',
        apiVersion,
        spec: { interactive: false },
      }),
    };
    if (this.#command === '') fields.refuse('command', 'is missing');
    if (exec.interactiveMode === 'Always') fields.refuse('interactiveMode', 'asks for a terminal');
    const [problem] = fields.problems;
    if (problem !== undefined) throw new Error(`${problem.field} ${problem.reason}`);
    this.#timeoutMs = timeoutMs;
  }

  /** Its last credentials, until they expire. Rejects with an Error that contains the reason. */
  async read(): Promise<PluginOutput> {
    if (this.#credential !== undefined && Date.now() < this.#credential.expiresAtMs) {
      return this.#credential.output;
    }
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  /** The server refused the credentials: the next `read` runs the plugin again. */
  invalidate(): void {
    this.#credential = undefined;
  }

  /** Kills it, if it runs. */
  close(): void {
    if (this.#child !== undefined) kill(this.#child);
  }

  async #run(): Promise<PluginOutput> {
    const text = await this.#output().catch((error: PluginError) => {
      this.#observer(error.call);
      throw error;
    });
    this.#observer({ kind: 'plugin-call', status: 'no_error', code: 0 });
    const credential = parseCredential(text);
    this.#credential = credential;
    this.#gave(credential.output.certificate);
    return credential.output;
  }

  #gave(bytes: Buffer | undefined): void {
    const before = this.#certificate;
    const next = bytes && certificateOf(bytes.toString());
    this.#certificate = next;
    const isReplaced = before !== undefined && before.text !== next?.text;
    const replacedAgeMs = isReplaced ? Date.now() - before.notBeforeMs : undefined;
    const notAfterMs = next?.notAfterMs;
    this.#observer({ kind: 'plugin-certificate', notAfterMs, replacedAgeMs });
  }

  #output(): Promise<string> {
    const child = spawn(this.#command, this.#args, {
      env: { ...process.env, ...this.#environment },
      stdio: ['ignore', 'pipe', 'pipe'],
      // Its own process group, so that processes that it has started can be killed, too.
      detached: true,
    });
    this.#child = child;
    return new Promise<string>((resolve, reject) => {
      const fail = (
        reason: string,
        code = -1,
        status: PluginCall['status'] = 'plugin_execution_error',
      ): void => {
        clearTimeout(timer);
        kill(child);
        reject(new PluginError(reason, status, code));
      };
      const seconds = this.#timeoutMs / 1000;
      const timer = setTimeout(() => fail(`it has not ended after ${seconds} s`), this.#timeoutMs);
      // First: if it cannot be started for lack of file descriptors, it has no streams.
      child.once('error', (error) =>
        fail(whyNotStarted(this.#command, error), 1, 'plugin_not_found_error'),
      );
      const stdout = collect(child.stdout, () => fail('it prints too much'));
      const stderr = collect(child.stderr, () => {});
      child.once('close', (code, signal) => {
        clearTimeout(timer);
        this.#child = undefined;
        if (code === 0) return resolve(stdout());
        // Processes that it has started may continue.
        const reason = lastLine(stderr()) || `it ended with ${signal ?? `code ${code}`}`;
        reject(new PluginError(reason, 'plugin_execution_error', code ?? -1));
      });
    });
  }
}

function whyNotStarted(command: string, { code, message }: NodeJS.ErrnoException): string {
  if (code === 'ENOENT') {
    const place = command.includes('/') ? 'does not exist' : 'is not on the PATH';
    return `${command} ${place}, or the interpreter that it names does not exist`;
  }
  return code === 'EACCES' ? `${command} may not be run (permission denied)` : message;
}

function environmentOf(fields: FieldReader, value: unknown): Record<string, string> {
  const entries = fields.list(value, 'env').map((raw, i): [string, string] => {
    const { name, value: text } = fields.object(raw, `env[${i}]`) ?? {};
    return [fields.text(name, `env[${i}].name`) ?? '', fields.text(text, `env[${i}].value`) ?? ''];
  });
  return Object.fromEntries(entries);
}

/** Collects the stream as text. Calls `overflow` if it is longer than a credential can be. */
function collect(stream: Readable | undefined, overflow: () => void): () => string {
  const parts: Buffer[] = [];
  let length = 0;
  stream?.on('data', (part: Buffer) => {
    length += part.length;
    if (length <= outputBytesMax) parts.push(part);
    else overflow();
  });
  return () => Buffer.concat(parts).toString('utf8');
}

/** Kills the process and all that it has started, even if it has ended itself. */
function kill({ pid }: Child): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // It has just ended.
  }
}

function parseCredential(text: string) {
  const { status } = objectOf(tryJSON(text));
  if (!isRawObject(status)) throw new Error('it printed no ExecCredential with a status');
  const fields = new FieldReader('status');
  const token = fields.text(status.token, 'token') || undefined;
  const certificate =
    fields.text(status.clientCertificateData, 'clientCertificateData') || undefined;
  const key = fields.text(status.clientKeyData, 'clientKeyData') || undefined;
  const expires = fields.text(status.expirationTimestamp, 'expirationTimestamp') || undefined;
  const [problem] = fields.problems;
  if (problem !== undefined) throw new Error(`status.${problem.field} ${problem.reason}`);
  if ((certificate === undefined) !== (key === undefined)) {
    throw new Error('its certificate and its key must come together');
  }
  if (token === undefined && certificate === undefined) {
    throw new Error('it gave neither a token nor a certificate');
  }
  const expiresAtMs = expires === undefined ? Number.POSITIVE_INFINITY : Date.parse(expires);
  const output: PluginOutput = {
    authorization: token === undefined ? undefined : `Bearer ${token}`,
    certificate: certificate === undefined ? undefined : Buffer.from(certificate),
    key: key === undefined ? undefined : Buffer.from(key),
  };
  return { output, expiresAtMs };
}

/** Undefined when it cannot be read: its user will say so. */
function certificateOf(text: string): Certificate | undefined {
  try {
    const { validFromDate, validToDate } = new X509Certificate(text);
    return { text, notBeforeMs: validFromDate.getTime(), notAfterMs: validToDate.getTime() };
  } catch {
    return undefined;
  }
}

function lastLine(text: string): string {
  return text.trim().split('\n').at(-1) ?? '';
}
