/**
 * What nft lists, with or without handles, but without the words about who owns a table: that goes
 * with the process.
 */
export function withoutOwner(listing: string): string {
  return listing
    .replace(/ # progname \S+$/gm, '')
    .replace(/ progname \S+/g, '')
    .replace(/^\tflags .*\n/gm, '');
}
