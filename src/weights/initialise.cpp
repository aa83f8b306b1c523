#include <comera/weights/initialise.h>
