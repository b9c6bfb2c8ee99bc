/* crc32.h - CRC-32 as in zip and PNG: the reflected polynomial 0xEDB88320. */
#ifndef CRC32_H
#define CRC32_H

#include <stddef.h>
#include <stdint.h>

/* Start with 0 and add the pieces in order. */
uint32_t crc32_add(uint32_t crc, const void *data, size_t size);

#endif
