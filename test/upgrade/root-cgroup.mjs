/**
 * Loaded before the program: the cgroup of a test, at /sys/fs/cgroup, is the root of the hierarchy
 * for it. Otherwise it would attach its programs to the root, and so to all processes of the machine.
 */
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

const { statSync } = fs;
/** As in src/host/cgroup.ts. */
const rootNumber = 1;

fs.statSync = (path, ...options) => {
  const found = statSync(path, ...options);
  if (path === '/sys/fs/cgroup') found.ino = rootNumber;
  else if (found?.ino === rootNumber) found.ino = 0;
  return found;
};
syncBuiltinESMExports();
