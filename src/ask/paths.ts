/** The version of all answers. */
export const apiVersion = 'fairlead/v1';

/** The path of an endpoint. It is not in the module of schemas, so clients need not load those. */
export function pathOf<const Name extends string>(name: Name): `/${typeof apiVersion}/${Name}` {
  return `/${apiVersion}/${name}`;
}

/** Of a question. */
type Parameters = Readonly<Partial<Record<string, string>>>;

/** Whether the question is passed to the API server, or has the files read again. */
export function isPassedOn({ from = '', pods }: Parameters): boolean {
  return from.startsWith('pod/') || pods !== undefined;
}
