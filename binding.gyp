{
  "targets": [
    {
      "target_name": "fairlead",
      "sources": [
        "<!@(sh native/unity build/unity)",
        "native/addon.cc",
      ],
      "include_dirs": ["native"],
      "defines": [
        "NAPI_VERSION=9",
        "NODE_ADDON_API_DISABLE_CPP_EXCEPTIONS",
        "NODE_ADDON_API_DISABLE_DEPRECATED",
        # In a worker that is being terminated nothing can be thrown: that must not end the process.
        "NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS",
      ],
      "cflags": [
        # System headers, so that our warnings are not those of others.
        "-isystem <!(node -p \"require('node:path').dirname(require.resolve('node-addon-api'))\")",
        "-fvisibility=hidden",
        "-fstack-protector-strong",
      ],
      "cflags_cc": [
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Wconversion",
        "-Wshadow",
        "-Werror",
      ],
      # A thread of native/log may be in a write when a worker thread of Node unloads the addon.
      # The addresses of imported functions are read-only once it is loaded.
      "ldflags": ["-Wl,-z,nodelete", "-Wl,-z,relro", "-Wl,-z,now"],
      # Node's own settings come with another standard and with warnings switched off.
      "cflags!": ["-Wno-unused-parameter", "-O3"],
      "cflags_cc!": ["-std=gnu++17", "-std=gnu++20", "-fexceptions"],
      "configurations": {
        "Release": {
          # Some compilers define a level of their own. Without optimisation none has an effect.
          "cflags": ["-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3"],
          "cflags_cc": ["-std=c++23", "-fno-exceptions"],
        },
      },
    },
  ],
}
