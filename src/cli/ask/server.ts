/** The address of the running process, from the flags of a command. */
import { readFileSync } from 'node:fs';
import { formatAddress, joinHostPort } from '../../net/address.ts';
import { splitHostPort } from '../../net/host-port.ts';
import type { Given } from '../command.ts';
import { UsageError } from '../errors.ts';

const defaultServer = '127.0.0.1:10249';

/** `http://127.0.0.1:10249`. Rejects with a UsageError. */
export async function serverOf({ values }: Pick<Given, 'values'>): Promise<string> {
  const { config, server } = values;
  if (server === undefined) {
    return `http://${config === undefined ? defaultServer : await serverInFile(config)}`;
  }
  const parts = splitHostPort(server);
  if (parts === undefined || !/^\d+$/.test(parts.port)) {
    throw new UsageError(`--server "${server}" is not ADDRESS:PORT`);
  }
  return `http://${joinHostPort(parts.host || 'localhost', Number(parts.port))}`;
}

/** The address at which a process with this configuration answers. */
async function serverInFile(path: string): Promise<string> {
  const { loadConfig } = await import('../../config/load.ts');
  const result = loadConfig(['--config', path], { readFile: (file) => readFileSync(file) });
  if (result.kind === 'error') throw new UsageError(result.message);
  const at = result.kind === 'run' ? result.config.metricsBindAddress : undefined;
  if (at === undefined) {
    throw new UsageError(`${path}: metricsBindAddress is empty: the process answers nowhere`);
  }
  const { bytes, family } = at.address;
  const isWildcard = bytes.every((byte) => byte === 0);
  const loopback = family === 'IPv4' ? '127.0.0.1' : '::1';
  return joinHostPort(isWildcard ? loopback : formatAddress(bytes), at.port);
}
