import { join } from 'node:path';
import { defineConfig } from 'vitest/config';
import { FailedTests } from './test/failed-tests.ts';
import { paced } from './test/lab/pace.ts';
import { LongFirst } from './test/long-first.ts';

/** For tests with packets, on a busy machine. Options of the command line do not reach projects. */
const longestMs = paced(120_000);
/** A machine that runs many tests together may be ten times as slow as it is with one. */
const longestOfUnitMs = 120_000;
/**
 * Tests that need real time mostly wait for it: more of them than there are cores. Projects that run
 * together have to have as many workers.
 */
const togetherOfUnit = 6;
/** Programs that tests start, from the sources, are compiled once. */
const compiledOnce = { NODE_COMPILE_CACHE: join(import.meta.dirname, 'build/compile-cache') };

/**
 * Kernel tests mostly wait, for packets and for the kernel, and namespaces keep them apart. These
 * run one at a time: they limit times, keep the processor busy, ask what the machine has, or take
 * the lock of iptables-legacy, which is one for all namespaces.
 */
const alone = [
  'test/conformance/{bpf,legacy,legacy-takeover,nft-elements,watch}.kernel.test.ts',
  'test/process/{demo,going-back,preflight}.kernel.test.ts',
  'test/stories/{affinity-flood,connect-time-kills,connect-time-load}.kernel.test.ts',
  'test/stories/{guard,takeover}.kernel.test.ts',
];

/** For `npm run evidence`: scripts/test names the part that it runs. */
const { FAIRLEAD_PART: part } = process.env;
const outputFile = join(import.meta.dirname, 'build/junit', `${part}.xml`);
const junit: [string, Record<string, unknown>] = ['junit', { outputFile }];
/** An emulated processor has no time left while one test waits. */
const kernelTestsTogether = paced(1) > 1 ? 1 : 3;

export default defineConfig({
  test: {
    reporters: ['default', new FailedTests(), ...(part === undefined ? [] : [junit])],
    sequence: { sequencer: LongFirst },
    projects: [
      {
        test: {
          name: 'unit',
          include: ['test/**/*.test.ts'],
          exclude: [
            'test/**/*.{cost,kernel,image,prometheus,upgrade,vm}.test.ts',
            'test/real-time/**',
            'node_modules/**',
          ],
          maxWorkers: togetherOfUnit,
          // Files share modules, which saves a third of the time: no module may keep anything.
          setupFiles: 'test/properties.ts',
          isolate: false,
          testTimeout: longestOfUnitMs,
          hookTimeout: longestOfUnitMs,
          env: compiledOnce,
        },
      },
      {
        // What needs sockets, watched files or processes, and the time that they take.
        test: {
          name: 'real-time',
          include: ['test/real-time/**/*.test.ts'],
          maxWorkers: togetherOfUnit,
          setupFiles: 'test/properties.ts',
          isolate: false,
          testTimeout: longestOfUnitMs,
          hookTimeout: longestOfUnitMs,
          env: compiledOnce,
        },
      },
      {
        // Work counted in steps of V8, which knows only those of code that has not run before.
        test: {
          name: 'cost',
          include: ['test/**/*.cost.test.ts'],
          testTimeout: longestOfUnitMs,
          // As Vitest does by itself with two cores; with more, it rejects the projects together.
          fileParallelism: false,
        },
      },
      {
        // The same of the API server, which speaks protobuf otherwise.
        test: {
          name: 'json',
          include: [
            'test/real-time/source/kubernetes/{chaos,lists,process,restored,source,time}.test.ts',
          ],
          maxWorkers: togetherOfUnit,
          isolate: false,
          testTimeout: longestOfUnitMs,
          hookTimeout: longestOfUnitMs,
          env: { FAIRLEAD_CONTENT_TYPE: 'application/json' },
        },
      },
      {
        test: {
          name: 'kernel',
          include: ['test/**/*.kernel.test.ts'],
          exclude: alone,
          testTimeout: longestMs,
          hookTimeout: longestMs,
          maxWorkers: kernelTestsTogether,
          isolate: false,
          // Projects that run together in the same group have to have as many workers.
          sequence: { groupOrder: 1 },
          env: compiledOnce,
        },
      },
      {
        // Vitest runs what has one worker last.
        test: {
          name: 'kernel-alone',
          include: alone,
          testTimeout: longestMs,
          hookTimeout: longestMs,
          fileParallelism: false,
          isolate: false,
          env: compiledOnce,
        },
      },
      {
        test: {
          name: 'image',
          include: ['test/**/*.image.test.ts'],
          testTimeout: longestMs,
          hookTimeout: longestMs,
        },
      },
      {
        // This version and the one before it, which scripts/test-upgrade builds.
        test: {
          name: 'upgrade',
          include: ['test/**/*.upgrade.test.ts'],
          testTimeout: longestMs,
          hookTimeout: longestMs,
          fileParallelism: false,
        },
      },
      {
        // Rules and dashboards, judged by Prometheus itself.
        test: {
          name: 'prometheus',
          include: ['test/**/*.prometheus.test.ts'],
          testTimeout: longestOfUnitMs,
          hookTimeout: longestOfUnitMs,
        },
      },
      {
        // What needs a kernel with IPVS, which only the virtual machines are sure to have.
        test: {
          name: 'vm',
          include: ['test/**/*.vm.test.ts'],
          testTimeout: longestMs,
          hookTimeout: longestMs,
          fileParallelism: false,
          isolate: false,
          env: compiledOnce,
        },
      },
    ],
  },
});
