import { describe, expect, it } from 'vitest';
import { FakeKernel } from '../fake/kernel.ts';
import { createKernel } from './namespace.ts';
import { cases } from './nft-cases.ts';
import { record } from './nft-record.ts';
import { readLinks, recordSingle, routeCases } from './single-cases.ts';
import { xtStories } from './xt-cases.ts';

describe('the real nf_tables', () => {
  it.for([...cases, ...xtStories])('$title, and the fake kernel does the same', async (story) => {
    const { kernel } = await createKernel();
    const real = await record(kernel, story);
    expect(real.outcomes).toEqual(story.steps.map(({ outcome }) => outcome));
    expect(await record(new FakeKernel(), story)).toEqual(real);
  });
});

describe('real links', () => {
  it.for(routeCases)('$title, and the fake kernel does the same', async (story) => {
    const { kernel } = await createKernel();
    const real = await recordSingle(kernel, story, readLinks);
    expect(real.outcomes).toEqual(story.steps.map(([, outcome]) => outcome));
    expect(await recordSingle(new FakeKernel(), story, readLinks)).toEqual(real);
  });
});
