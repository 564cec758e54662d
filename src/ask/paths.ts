/** Before the name of each endpoint. */
const prefix = '/fairlead/v1';

/** The path of an endpoint. It is apart from the schemas, which clients need not load. */
export function pathOf<const Name extends string>(name: Name): `${typeof prefix}/${Name}` {
  return `${prefix}/${name}`;
}
