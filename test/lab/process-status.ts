import { readFileSync } from 'node:fs';

/** The numbers of `/proc/PID/status` (proc_pid_status(5)): memory is in kB. */
export function processStatus(pid: number): (name: string) => number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return (name) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1]);
}
