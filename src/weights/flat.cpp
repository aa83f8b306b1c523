#include <comera/weights/flat.h>
