#include "convert/calibrate.h"

#include <stdlib.h>
#include <string.h>

#include "os/os.h"

/* === Running === */

static bool allocate(runner *run, const vit_params *params, report *r) {
    const vit_config *config = &run->model->config;
    size_t pixels = (size_t)config->img_height * (size_t)config->img_width;
    size_t size = vit_workspace_size(run->model, params);
    run->embedding_size = (size_t)vit_embedding_dim(run->model);
    run->output_size = config->num_classes ? (size_t)config->num_classes : run->embedding_size;
    run->input = malloc((size_t)config->in_chans * pixels * sizeof *run->input);
    run->embedding = malloc(run->embedding_size * sizeof *run->embedding);
    run->output = config->num_classes ? malloc(run->output_size * sizeof *run->output)
                                      : run->embedding;
    run->workspace = malloc(size);
    if (!run->input || !run->embedding || !run->output || !run->workspace)
        return report_no_memory(r);
    if (vit_session_init(&run->session, run->model, params, run->workspace, size))
        return report_fail(r, "the model cannot be run");
    return true;
}

bool runner_open(runner *run, const vit_model *model, vit_trace *trace, void *user, report *r) {
    memset(run, 0, sizeof *run);
    run->model = model;
    if (vit_threads_create(0, &run->threads, &run->executor)) return report_no_memory(r);
    run->params.executor = run->executor;
    run->params.trace = trace;
    run->params.trace_user = user;
    return allocate(run, &run->params, r);
}

bool runner_fit(runner *run, const vit_image *image, report *r) {
    const vit_config *c = &run->fitted.config;
    vit_result result = vit_model_fit(run->model, image, &run->fitted);
    if (result == VIT_OK) {
        vit_session_close(&run->session);
        free(run->input);
        run->input = malloc((size_t)c->in_chans * (size_t)c->img_height * (size_t)c->img_width *
                            sizeof *run->input);
        if (!run->input) return report_no_memory(r);
        result = vit_session_init(&run->session, &run->fitted, &run->params, NULL, 0);
    }
    if (result == VIT_OK) result = vit_preprocess(&run->fitted, image, run->input, NULL, 0);
    return result == VIT_OK || report_fail(r, "%s", vit_result_string(result));
}

bool runner_forward(runner *run, report *r) {
    vit_outputs outputs;
    vit_result result;
    memset(&outputs, 0, sizeof outputs);
    outputs.embedding = run->embedding;
    if (run->output != run->embedding) outputs.logits = run->output;
    result = vit_forward(&run->session, &(vit_input){ .pixels = run->input }, &outputs);
    if (result) return report_fail(r, "%s", vit_result_string(result));
    return true;
}

void runner_close(runner *run) {
    vit_session_close(&run->session);
    vit_threads_destroy(run->threads);
    free(run->input);
    if (run->output != run->embedding) free(run->output);
    free(run->embedding);
    free(run->workspace);
    memset(run, 0, sizeof *run);
}

/* === Pages === */

void pages_drop(const vit_model *model) {
    vit_tensor first, tensor;
    uint64_t end = 0;
    int i;
    if (!vit_model_tensor(model, 0, &first)) return;
    for (i = 0; vit_model_tensor(model, i, &tensor); i++) end = tensor.offset + tensor.size;
    os_drop_pages(first.data, (size_t)(end - first.offset));
}
