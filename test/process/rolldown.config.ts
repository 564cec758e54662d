import program from '../../rolldown.config.ts';

/** How scripts/test-kernel bundles the program, and what else its tests start as processes. */
export default {
  ...program,
  input: [...program.input, 'test/stories/fairlead-inside-main.ts'],
};
