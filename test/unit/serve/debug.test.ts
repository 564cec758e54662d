import { expect, it } from 'vitest';
import { profileRoutes } from '../../../src/serve/profile.ts';
import type { Asked } from '../../../src/serve/reply.ts';
import { debugRoutes } from '../../../src/serve/servers.ts';

const asked: Asked = {
  method: 'PUT',
  query: new URLSearchParams(),
  peer: '127.0.0.1',
  host: 'localhost:10249',
  accept: '',
  acceptEncoding: '',
  authorization: '',
  body: '4',
};
const routes = { ...debugRoutes(() => {}), ...profileRoutes() };

it.each(Object.keys(routes))(
  '%s answers only this node, and no page of another site',
  async (path) => {
    const route = routes[path]!;
    expect(await route({ ...asked, peer: '10.0.0.7' })).toMatchObject({
      status: 403,
      body: 'answers are for this node: 10.0.0.7 is not a loopback address\n',
    });
    expect(await route({ ...asked, host: 'evil.example:10249' })).toMatchObject({ status: 403 });
  },
);

it('the verbosity can be set from this node', async () => {
  let verbosity = 0;
  const { '/debug/flags/v': route } = debugRoutes((wanted) => {
    verbosity = wanted;
  });
  expect(await route!(asked)).toMatchObject({ status: 200 });
  expect(verbosity).toBe(4);
});
