/** Methods of the addon's classes, called with objects of others. */
import { expect, it } from 'vitest';
import { loadAddon } from '../../../src/kernel/addon.ts';

type Class = new (...args: unknown[]) => Record<string, (...args: unknown[]) => unknown>;

const nothing = (): void => {};
/** The arguments of each class. */
const classes: Readonly<Record<string, readonly unknown[]>> = {
  AddressWatch: [nothing],
  LineWriter: [2],
  Socket: [],
  TurnMeter: [],
  Watch: [{ tables: [] }, nothing],
};
const exported = loadAddon() as unknown as Readonly<Record<string, Class>>;

it('the addon has these classes', () => {
  const found = Object.keys(exported).filter((name) => /^[A-Z]/.test(name));
  expect(found.sort()).toEqual(Object.keys(classes));
});

it.each(Object.keys(classes))('a method of %s refuses objects of other classes', (name) => {
  const { prototype } = exported[name]!;
  const methods = Object.getOwnPropertyNames(prototype).filter((one) => one !== 'constructor');
  expect(methods).not.toEqual([]);
  const own = new exported[name]!(...classes[name]!);
  const others = Object.keys(classes).filter((other) => other !== name);
  const made = others.map((other) => new exported[other]!(...classes[other]!));
  const disguised = made.map((object) => Object.setPrototypeOf(object, prototype));
  for (const method of methods) {
    for (const receiver of [...disguised, Object.create(own), {}, undefined, 7]) {
      expect(() => prototype[method]!.call(receiver)).toThrow(TypeError);
    }
  }
  for (const [i, object] of made.entries()) exported[others[i]!]!.prototype.close?.call(object);
  own.close?.();
});
