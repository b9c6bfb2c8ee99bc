#include "layout/groups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The length of a number that stands by itself: "3" in "blocks.3." and "layer_3.", not in "fc3";
 * numbers of more than six digits are left as they are. */
static size_t number_at(const char *name, size_t at)
{
    size_t length = 0;
    if (at > 0 && !strchr("._/", name[at - 1])) return 0;
    while (is_digit(name[at + length])) length++;
    return length <= 6 && (!name[at + length] || strchr("._/", name[at + length])) ? length : 0;
}

/* Do they differ in nothing but their numbers? Those of `name` are noted. */
static bool is_alike(const char *a, const char *name, long numbers[GROUP_NUMBERS])
{
    size_t i = 0, j = 0;
    int count = 0;
    while (a[i] && name[j]) {
        const size_t left = number_at(a, i), right = number_at(name, j);
        if (left > 0 && right > 0 && count < GROUP_NUMBERS) {
            numbers[count++] = strtol(name + j, NULL, 10);
            i += left;
            j += right;
        } else if (a[i++] != name[j++]) {
            return false;
        }
    }
    return !a[i] && !name[j];
}

static void widen(name_group *group, const long numbers[GROUP_NUMBERS])
{
    int i;
    for (i = 0; i < GROUP_NUMBERS; i++) {
        if (group->count == 0 || numbers[i] < group->first[i]) group->first[i] = numbers[i];
        if (group->count == 0 || numbers[i] > group->last[i]) group->last[i] = numbers[i];
    }
    group->count++;
}

static bool start(name_group *group, const char *name, const char *note)
{
    const size_t size = strlen(name) + 1, note_size = strlen(note) + 1;
    group->name = malloc(size);
    group->note = malloc(note_size);
    if (group->name) memcpy(group->name, name, size);
    if (group->note) memcpy(group->note, note, note_size);
    return group->name && group->note;
}

bool groups_add(name_groups *groups, const char *name, const char *note)
{
    long numbers[GROUP_NUMBERS] = { 0 };
    size_t i;
    for (i = 0; i < groups->count; i++)
        if (!strcmp(groups->items[i].note, note) &&
            is_alike(groups->items[i].name, name, numbers)) {
            widen(&groups->items[i], numbers);
            return true;
        }
    if (groups->count == GROUPS_MAX) {
        groups->more++;
        return true;
    }
    (void)is_alike(name, name, numbers);
    widen(&groups->items[groups->count++], numbers);
    return start(&groups->items[groups->count - 1], name, note);
}

void groups_free(name_groups *groups)
{
    size_t i;
    for (i = 0; i < groups->count; i++) {
        free(groups->items[i].name);
        free(groups->items[i].note);
    }
    memset(groups, 0, sizeof *groups);
}

const char *group_text(const name_group *group, char text[GROUP_TEXT_SIZE])
{
    const char *name = group->name;
    size_t i = 0, used = 0;
    int count = 0;
    text[0] = '\0';
    while (name[i] && used + 64 < GROUP_TEXT_SIZE) {
        const size_t length = number_at(name, i);
        const bool varies = length > 0 && count < GROUP_NUMBERS &&
                            group->first[count] < group->last[count];
        if (varies)
            used += (size_t)snprintf(text + used, GROUP_TEXT_SIZE - used, "{%ld..%ld}",
                                     group->first[count], group->last[count]);
        else
            used += (size_t)snprintf(text + used, GROUP_TEXT_SIZE - used, "%.*s",
                                     length > 0 ? (int)length : 1, name + i);
        i += length > 0 ? length : 1;
        count += length > 0 && count < GROUP_NUMBERS;
    }
    return text;
}
