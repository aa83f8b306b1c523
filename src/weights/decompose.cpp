#include <comera/weights/decompose.h>
