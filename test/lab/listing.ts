/** What nft lists, without the words about who owns a table: that goes with the process. */
export function withoutOwner(listing: string): string {
  return listing.replace(/ # progname .*/g, '').replace(/^\tflags .*\n/gm, '');
}
