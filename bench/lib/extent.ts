/** How much a benchmark that takes long measures: what is usual, or all that it can. */
export type Extent = 'usual' | 'whole';
