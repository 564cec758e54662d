import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: 'unit',
          include: ['test/**/*.test.ts'],
          exclude: ['test/**/*.kernel.test.ts', 'node_modules/**'],
        },
      },
      {
        test: {
          name: 'kernel',
          include: ['test/**/*.kernel.test.ts'],
          testTimeout: 60_000,
          hookTimeout: 60_000,
          // One namespace lab at a time: two cores, and conntrack and nft commits are shared.
          fileParallelism: false,
        },
      },
    ],
  },
});
