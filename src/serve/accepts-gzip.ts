/** Whether a client accepts gzip: gzip is listed, and its weight is not 0. */
export function acceptsGzip(acceptEncoding: string): boolean {
  return acceptEncoding.split(',').some((one) => {
    const [coding = '', weight = ''] = one.split(';').map((part) => part.trim().toLowerCase());
    return coding === 'gzip' && !/^q=0(\.0*)?$/.test(weight);
  });
}
