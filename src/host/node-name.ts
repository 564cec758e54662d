import { hostname } from 'node:os';

/** Where the name comes from, for messages. */
export const nameOrigin = "the name is --hostname-override's, else the host's";

/** This node's name: the override, or the operating system's host name, trimmed, lower-cased. */
export function nodeName(override: string, systemName: string = hostname()): string {
  const name = (override || systemName).trim().toLowerCase();
  if (name === '') {
    throw new Error('the host has no name: set one with hostname, or give --hostname-override');
  }
  return name;
}
