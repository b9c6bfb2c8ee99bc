/* tar_header.h - the header of a member of a tar archive: V7, ustar, PAX and GNU's. */
#ifndef TAR_HEADER_H
#define TAR_HEADER_H

#include <stdbool.h>
#include <stdint.h>

enum { TAR_BLOCK = 512, TAR_HEADER_NAME = 155 + 1 + 100 };

typedef struct tar_header {
    char type;                          /* '0' is a file, for old archives too             */
    uint64_t size;                      /* of what follows, up to 2^63 - 1                 */
    char name[TAR_HEADER_NAME + 1];
    bool extended;                      /* GNU's sparse files: more of the header follows  */
} tar_header;

/* False: the checksum or the size is damaged. */
bool tar_header_read(tar_header *h, const uint8_t block[TAR_BLOCK]);

#endif
