/* groups.h - names that differ only in their numbers, as one: "blocks.{0..11}.attn.foo [64, 64]".
 */
#ifndef GROUPS_H
#define GROUPS_H

#include <stdbool.h>
#include <stddef.h>

enum { GROUPS_MAX = 64, GROUP_NUMBERS = 4, GROUP_TEXT_SIZE = 4096 };

typedef struct name_group {
    char *name;                          /* of the first */
    char *note;                          /* what all of them share: a shape, a reason */
    long first[GROUP_NUMBERS], last[GROUP_NUMBERS];
    size_t count;
} name_group;

/* Zero it first. */
typedef struct name_groups {
    name_group items[GROUPS_MAX];        /* in the order of their first name */
    size_t count, more;                  /* more: names beyond the last group */
} name_groups;

/* False: out of memory. */
bool groups_add(name_groups *groups, const char *name, const char *note);
void groups_free(name_groups *groups);

/* "blocks.{0..11}.attn.foo" */
const char *group_text(const name_group *group, char text[GROUP_TEXT_SIZE]);

#endif
