/** Which mutant is in force in this process, which tests share, and how often it was reached. */
import { Worker } from 'node:worker_threads';

/** Ends the process when one choice has taken too much work: its thread may be in a loop. */
const watchdog = `const { workerData: watched } = require('node:worker_threads');
let last = 0;
let sinceMs = 0;
setInterval(() => {
  const [choices, longestMs] = watched;
  const { system, user } = process.cpuUsage();
  const nowMs = (system + user) / 1000;
  if (choices !== last || longestMs === 0) [last, sinceMs] = [choices, nowMs];
  else if (nowMs - sinceMs > longestMs) process.kill(process.pid, 'SIGKILL');
}, 200);`;

export class Chosen {
  readonly #switches = new Map<number, (isOn: boolean) => void>();
  readonly #watched = new Int32Array(new SharedArrayBuffer(8));
  #id = 0;
  #reachedMax = 0;
  /** How often each mutant was reached since the last choice. */
  reached: Record<number, number> = {};

  constructor() {
    new Worker(watchdog, { eval: true, workerData: this.#watched }).unref();
    Object.assign(globalThis, {
      mutant: (id: number) => this.#isOn(id),
      switched: (id: number, set: (isOn: boolean) => void) => {
        this.#switches.set(id, set);
        if (id === this.#id) set(true);
      },
    });
  }

  /**
   * `reachedMax`: more is an endless loop. `longestMs`: of processor time until the next choice; 0 =
   * no limit.
   */
  choose(id: number, reachedMax: number, longestMs: number): void {
    this.#switches.get(this.#id)?.(false);
    this.#switches.get(id)?.(true);
    this.#id = id;
    this.#reachedMax = reachedMax;
    this.reached = {};
    this.#watched[0]! += 1;
    this.#watched[1] = longestMs;
  }

  #isOn(id: number): boolean {
    const times = (this.reached[id] ?? 0) + 1;
    this.reached[id] = times;
    if (id === this.#id && times > this.#reachedMax) throw new Error('the mutant does not end');
    return id === this.#id;
  }
}

/** Of this process: files of tests share modules. */
export const chosen = new Chosen();
