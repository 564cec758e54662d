/** The version of all answers. */
export const apiVersion = 'fairlead/v1';

/** The path of an endpoint. It is not in the module of schemas, so clients need not load those. */
export function pathOf<const Name extends string>(name: Name): `/${typeof apiVersion}/${Name}` {
  return `/${apiVersion}/${name}`;
}
