import { expect, test } from 'vitest';
import { describeOps } from '../../../src/kernel/describe-ops.ts';
import { kernelOps } from '../../../src/kernel/ops.ts';
import { RecordWriter } from '../../../src/kernel/records.ts';

test('describes each op by its verb, its kind and the name of its object', () => {
  const out = new RecordWriter(kernelOps);
  const at = { family: 2, table: 'nat' };
  const rule = { ...at, chain: 'OUTPUT', position: 0, protocol: 0, echo: 0 };
  const place = { directory: '/sys/fs/bpf/fairlead', family: 2 };
  const devices = { ...at, flowtable: 'fast', priority: 0, devices: 'eth0' };
  out.write('xtRuleAdd', { ...rule, expressions: new Uint8Array(0) });
  out.write('xtRuleInsert', { ...rule, expressions: new Uint8Array(0) });
  out.write('ruleDelete', { ...at, chain: 'OUTPUT', handle: 7, echo: 0 });
  out.write('setFlush', { ...at, set: 'ips' });
  out.write('flowtableAdd', { ...devices, flags: 0 });
  out.write('flowtableDevicesDelete', devices);
  out.write('bpfLeaseExtend', { ...place, milliseconds: 1, onlyValid: 0 });
  expect([...describeOps(out.finish(), () => undefined)]).toEqual([
    'add rule ip nat OUTPUT',
    'insert rule ip nat OUTPUT',
    'delete rule ip nat OUTPUT',
    'flush set ip nat ips',
    'add flowtable ip nat fast',
    'delete flowtableDevices ip nat fast',
    'extend bpfLease',
  ]);
});
