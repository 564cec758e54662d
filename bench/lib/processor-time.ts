/** The processor time of a process since its start. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';

/** Milliseconds. */
export interface ProcessorTime {
  readonly all: number;
  readonly main: number;
  /** Of the threads on which V8 compiles and collects garbage. */
  readonly ofV8: number;
}

export function processorTime(pid: number): ProcessorTime {
  const time = { all: 0, main: 0, ofV8: 0 };
  for (const task of threadsOf(pid)) {
    const ms = threadMs(task);
    time.all += ms;
    if (task.endsWith(`/${pid}`)) time.main += ms;
    else if (readFileSync(`${task}/comm`, 'utf8').startsWith('V8Worker')) time.ofV8 += ms;
  }
  return time;
}

/** The folders of its threads in `/proc`. */
export function threadsOf(pid: number): string[] {
  return readdirSync(`/proc/${pid}/task`).map((id) => `/proc/${pid}/task/${id}`);
}

/** Of a thread. A kernel without schedstat counts in units of 10 ms. */
export function threadMs(task: string): number {
  if (existsSync(`${task}/schedstat`)) {
    return Number(readFileSync(`${task}/schedstat`, 'utf8').split(' ')[0]) / 1e6;
  }
  const [user, system] = readFileSync(`${task}/stat`, 'utf8').split(') ')[1]!.split(' ').slice(11);
  return (Number(user) + Number(system)) * 10;
}

/** Milliseconds of a process, and of its children that have ended: kube-proxy runs `nft`. */
export function withChildrenMs(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // proc_pid_stat(5), after the name: utime, stime, cutime and cstime, in units of 10 ms.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return 10 * fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
}
