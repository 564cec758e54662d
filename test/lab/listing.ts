/**
 * A listing of nft without the owners of tables, which differ from process to process.
 */
export function withoutOwner(listing: string): string {
  return listing
    .replace(/ # progname \S+$/gm, '')
    .replace(/ progname \S+/g, '')
    .replace(/^\tflags .*\n/gm, '');
}
