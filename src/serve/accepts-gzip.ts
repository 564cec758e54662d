/** Whether a client takes gzip: alone or among others, unless its weight is 0. */
export function acceptsGzip(acceptEncoding: string): boolean {
  return acceptEncoding.split(',').some((one) => {
    const [coding = '', weight = ''] = one.split(';').map((part) => part.trim().toLowerCase());
    return coding === 'gzip' && !/^q=0(\.0*)?$/.test(weight);
  });
}
