/* shim.h - adapts MinGW-w64's headers to a compiler of Microsoft's dialect of C, for which the
 * headers have no attributes. This file also adapts the headers to 64-bit ARM, which they do not
 * support. It must be included first.
 */
#if defined(_M_ARM64)
#include <stdarg.h>
#define _INC_VADEFS
typedef va_list __gnuc_va_list;
#endif
#include <_mingw.h>

#undef __attribute__ /* MinGW-w64 defines __attribute__ as nothing, but clang's headers need it */
#undef __MINGW_ATTRIB_MALLOC
#define __MINGW_ATTRIB_MALLOC
#undef __MINGW_ATTRIB_NORETURN
#define __MINGW_ATTRIB_NORETURN
#undef __MINGW_NOTHROW
#define __MINGW_NOTHROW
#undef __MINGW_ATTRIB_DEPRECATED
#define __MINGW_ATTRIB_DEPRECATED
#undef __MINGW_ATTRIB_DEPRECATED_MSG
#define __MINGW_ATTRIB_DEPRECATED_MSG(text)

#if !defined(_M_ARM64)
#include <math.h> /* the constants in this header are no constant expressions for that compiler */
#undef NAN
#define NAN __builtin_nanf("")
#undef INFINITY
#define INFINITY __builtin_inff()
#endif
