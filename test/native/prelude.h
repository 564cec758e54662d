// What most of the native tests include, compiled once (see Makefile).

// Before headers of the kernel, which leave out then what it has defined.
#include <netinet/in.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "protocol/ops.gen.h"
#include "samples.h"
