import { expect, test } from 'vitest';
import { createKernel } from './namespace.ts';
import { applied, batch, dumped } from './ops.ts';
import { addLink, addService, deleteService } from './single-cases.ts';

const web = 'tcp 10.96.0.10:80';

test('a kernel supports IPVS, or reports for every read and op that it does not', async () => {
  const { kernel } = await createKernel();
  const absent = { code: 'EPROTONOSUPPORT', message: expect.stringContaining('ip_vs') as string };
  const info = await dumped(kernel, 'ipvsInfo', { kind: 'ipvsInfoGet' }).catch((error) => error);
  if (Array.isArray(info)) {
    await applied(kernel, addService(web), deleteService(web));
    return;
  }
  expect(info).toMatchObject({ ...absent, operation: 'ipvs.ipvsInfoGet' });
  const dump = kernel.dump({ kind: 'virtualServicesDump', family: 0 });
  await expect(dump).rejects.toMatchObject(absent);
  const failures = [{ op: undefined, entry: undefined, ...absent }];
  const result = await kernel.apply(batch(addService(web), addLink));
  expect(result).toEqual({ kind: 'failed', failures, partly: false });
  const mixed = await kernel.apply(batch(addLink, addService(web)));
  expect(mixed).toEqual({ kind: 'failed', failures, partly: true });
});
