// cummax.
#include "scan/prefix_operation_of.h"

namespace gradplan::scan {
GP_PREFIX_OPERATION(Maximum)
}
