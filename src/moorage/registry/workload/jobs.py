"""Jobs."""

from __future__ import annotations

from moorage.api import kinds
from moorage.api.labels import selects
from moorage.api.meta import Data
from moorage.registry import namesyntax, schema, selectable
from moorage.registry.checks import IMMUTABLE, Errors, label_selector, nonnegative
from moorage.registry.defaulting import absent, fill
from moorage.registry.merging import ATOMIC, UNPATCHED_SET, keyed, patched, pointer, shape, struct
from moorage.registry.pod.merging import TEMPLATE_SHAPE
from moorage.registry.pod.spec import template_errors
from moorage.registry.printing import cells
from moorage.registry.printing.ages import human, moment
from moorage.registry.printing.cells import PrintedRow
from moorage.registry.printing.columns import AGE, NAME, column
from moorage.registry.strategy import SPEC, Strategy
from moorage.registry.workload.templates import default_template, workload_columns
from moorage.validation.field import invalid, not_supported, required, too_many

_MAX_INT32 = 2**31 - 1


_COUNTS = (
    "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
    "backoffLimitPerIndex", "maxFailedIndexes",
)  # fmt: skip

_IMMUTABLE = ("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
_SCHEDULING = ("nodeSelector", "tolerations", "schedulingGates")
_MAX_INDEXED = 100_000
_GENERATED = {"controller-uid": "uid", "batch.kubernetes.io/controller-uid": "uid"}
_GENERATED_NAMES = {"job-name": "name", "batch.kubernetes.io/job-name": "name"}


JOB_SPEC_SHAPE = struct(
    scheduling=pointer(resourceClaims=keyed("name")), selector=ATOMIC, template=TEMPLATE_SHAPE
)  # fmt: skip


def default_job_spec(spec: Data) -> None:
    """Set the defaults of a Job's spec."""
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("backoffLimit", _MAX_INT32 if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")

    absent(spec, parallelism=1, completionMode="NonIndexed", suspend=False, manualSelector=False)


def _defaults(obj: Data, _: str) -> None:
    default_job_spec(obj.setdefault("spec", {}))
    default_template(obj, "spec.template.spec")
    labels = obj["spec"]["template"].get("metadata", {}).get("labels")
    metadata = obj.setdefault("metadata", {})
    if labels and not metadata.get("labels"):
        metadata["labels"] = dict(labels)
    default_failure_policy(obj["spec"])


def default_failure_policy(spec: Data) -> None:
    """Set the defaults of a pod failure policy."""
    for rule in spec.get("podFailurePolicy", {}).get("rules", ()):
        for pattern in rule.get("onPodConditions", ()):
            fill(pattern, (("status", "True"),))


def _give_selector(job: Data) -> None:
    """Label the pods of a new Job with its uid and name, and select them by these, unless manualSelector is set."""
    spec, name, uid = job.setdefault("spec", {}), job["metadata"].get("name", ""), job["metadata"]["uid"]
    if spec.get("manualSelector"):
        return
    template = spec.setdefault("template", {})
    labels = template.setdefault("metadata", {}).setdefault("labels", {})
    for label, value in (
        ("job-name", name),
        ("batch.kubernetes.io/job-name", name),
        ("controller-uid", uid),
        ("batch.kubernetes.io/controller-uid", uid),
    ):
        labels.setdefault(label, value)
    chosen = spec.setdefault("selector", {}).setdefault("matchLabels", {})
    chosen.setdefault("batch.kubernetes.io/controller-uid", uid)


def _errors(new: Data, old: Data | None) -> Errors:
    """Validate a Job, or an update of one."""
    spec, metadata = new.get("spec", {}), new.get("metadata", {})
    if not spec.get("manualSelector") and "selector" in spec:
        yield from _generated_errors(spec, metadata)
    yield from job_spec_errors("spec", spec)
    selector = spec.get("selector")
    if selector is None:
        yield required("spec.selector")
    else:
        yield from label_selector("spec.selector", selector)
        labels = spec.get("template", {}).get("metadata", {}).get("labels", {})
        if not selects(selector, labels):
            yield invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    if spec.get("completionMode") == "Indexed" and spec.get("completions", 0) > 0 and old is None:
        last = f"{metadata.get('name', '')}-{spec['completions'] - 1}"
        if namesyntax.label(last):
            detail = f"will not able to create pod with invalid DNS label: {last}"
            yield invalid("metadata.name", metadata.get("name", ""), detail)
    if old is not None:
        yield from _update_errors(new, old)


def _generated_errors(spec: Data, metadata: Data) -> Errors:
    labels = spec.get("template", {}).get("metadata", {}).get("labels", {})
    expected = {label: metadata.get(field, "") for label, field in (_GENERATED | _GENERATED_NAMES).items()}
    for label, value in expected.items():
        path = f"spec.template.metadata.labels[{label}]"
        if label not in labels:
            yield required(path, f"must be '{value}'")
        elif labels[label] != value:
            yield invalid(path, labels, f"must be '{value}'")
    if not selects(spec["selector"], expected):
        yield invalid("spec.selector", spec["selector"], "`selector` not auto-generated")


def job_spec_errors(path: str, spec: Data) -> Errors:
    """Validate the spec of a Job, also in a CronJob."""
    yield from nonnegative(path, spec, *_COUNTS)
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        yield required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    mode = spec.get("completionMode", "NonIndexed")
    if mode not in ("NonIndexed", "Indexed"):
        yield not_supported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed"))
    if mode == "Indexed":
        yield from _indexed_errors(path, spec)
    elif mode == "NonIndexed":
        for name in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"):
            if name in spec:
                yield invalid(f"{path}.{name}", spec[name], "requires indexed completion mode")
    yield from _policy_errors(path, spec)
    yield from template_errors(f"{path}.template", spec.get("template", {}))
    yield from _restart_errors(path, spec)


def _indexed_errors(path: str, spec: Data) -> Errors:
    completions, failures = spec.get("completions"), spec.get("maxFailedIndexes", 0)
    if completions is None:
        yield required(f"{path}.completions", "when completion mode is Indexed")
    if spec.get("parallelism", 0) > _MAX_INDEXED:
        detail = f"must be less than or equal to {_MAX_INDEXED} when completion mode is Indexed"
        yield invalid(f"{path}.parallelism", spec["parallelism"], detail)
    if completions is not None and failures > completions:
        yield invalid(f"{path}.maxFailedIndexes", failures, "must be less than or equal to completions")
    if failures > _MAX_INDEXED:
        yield invalid(f"{path}.maxFailedIndexes", failures, f"must be less than or equal to {_MAX_INDEXED}")


def _policy_errors(path: str, spec: Data) -> Errors:
    replacement = spec.get("podReplacementPolicy")
    allowed = ("Failed",) if "podFailurePolicy" in spec else ("Failed", "TerminatingOrFailed")
    if replacement is not None and replacement not in allowed:
        yield not_supported(f"{path}.podReplacementPolicy", replacement, allowed)
    rules = spec.get("podFailurePolicy", {}).get("rules", ())
    if len(rules) > 20:
        yield too_many(f"{path}.podFailurePolicy.rules", len(rules), 20)
    for index, rule in enumerate(rules):
        action = rule.get("action", "")
        here = f"{path}.podFailurePolicy.rules[{index}].action"
        if not action:
            yield required(here)
        elif action not in ("Count", "FailIndex", "FailJob", "Ignore"):
            yield not_supported(here, action, ("Count", "FailIndex", "FailJob", "Ignore"))


def _restart_errors(path: str, spec: Data) -> Errors:
    policy = spec.get("template", {}).get("spec", {}).get("restartPolicy", "")
    here = f"{path}.template.spec.restartPolicy"
    if policy in ("", "Always"):
        yield required(here, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield not_supported(here, policy, ("OnFailure", "Never"))
    elif "podFailurePolicy" in spec and policy != "Never":
        yield invalid(here, policy, 'only "Never" is supported when podFailurePolicy is specified')


def _update_errors(new: Data, old: Data) -> Errors:
    spec, before = new.get("spec", {}), old.get("spec", {})
    completions = spec.get("completions")
    if completions != before.get("completions"):
        if spec.get("completionMode") != "Indexed":
            yield invalid("spec.completions", completions, IMMUTABLE)
        elif completions is not None and completions != spec.get("parallelism"):
            yield invalid("spec.completions", completions, "can only be modified in tandem with spec.parallelism")
    yield from _template_update_errors(spec.get("template", {}), before, old.get("status", {}))
    for name in _IMMUTABLE:
        if not schema.same(JOB.kind, new, old, "spec", name):
            yield invalid(f"spec.{name}", spec.get(name), IMMUTABLE)


def _template_update_errors(template: Data, before: Data, status: Data) -> Errors:
    """The template is immutable, except for the scheduling directives of a suspended Job that has not started."""
    old_template = before.get("template", {})
    if before.get("suspend") and "startTime" not in status:
        old_template = _with_new_placement(old_template, template)
    if not schema.same(JOB.kind, {"spec": {"template": template}}, {"spec": {"template": old_template}}, "spec"):
        yield invalid("spec.template", template, IMMUTABLE)


def _with_new_placement(old_template: Data, template: Data) -> Data:
    spec, new_spec = dict(old_template.get("spec", {})), template.get("spec", {})
    for name in _SCHEDULING:
        _take(spec, new_spec, name)
    affinity = dict(spec.get("affinity", {}))
    _take(affinity, new_spec.get("affinity", {}), "nodeAffinity")
    if affinity or "affinity" in new_spec:
        spec["affinity"] = affinity
    else:
        spec.pop("affinity", None)
    for field in ("containers", "initContainers"):
        before, after = spec.get(field, ()), new_spec.get(field, ())
        if [container.get("name") for container in before] == [container.get("name") for container in after]:
            pairs = zip(before, after, strict=True)
            spec[field] = [{**old, "resources": new.get("resources", {})} for old, new in pairs]
    metadata = dict(old_template.get("metadata", {}))
    for name in ("annotations", "labels"):
        _take(metadata, template.get("metadata", {}), name)
    return {**old_template, "metadata": metadata, "spec": spec}


def _take(part: Data, source: Data, name: str) -> None:
    if name in source:
        part[name] = source[name]
    else:
        part.pop(name, None)


_JOB_CONDITIONS = ("Complete", "Failed", "", "Suspended", "FailureTarget", "SuccessCriteriaMet")
"""The conditions that are the status of a Job, by precedence; the empty one stands for a Job in deletion."""


def _job_status(row: PrintedRow) -> str:
    """The status of a Job."""
    conditions = row.status.get("conditions") or ()
    for type_ in _JOB_CONDITIONS:
        if type_ and cells.condition_status(conditions, type_) == "True":
            return type_
        if not type_ and row.metadata.get("deletionTimestamp"):
            return "Terminating"
    return "Running"


def _job_completions(row: PrintedRow) -> str:
    """How many pods of how many have finished."""
    succeeded, completions = row.status.get("succeeded") or 0, row.spec.get("completions")
    if completions is not None:
        return f"{succeeded}/{completions}"
    parallelism = row.spec.get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(row: PrintedRow) -> str:
    """How long a job took, or takes so far."""
    start = moment(row.status.get("startTime"))
    end = moment(row.status.get("completionTime")) or row.now
    return human((end - start).total_seconds()) if start else ""


JOB = Strategy(
    kind=kinds.row("batch/v1", "Job"),
    defaults=_defaults,
    generate=_give_selector,
    errors=_errors,
    first_generation=1,
    counted=SPEC,
    field_refusal="field label {quoted} not supported for Job",
    fields={**selectable.NAMES, "status.successful": selectable.at("status.succeeded", "0")},
    merge=shape(
        spec=JOB_SPEC_SHAPE,
        status=struct(
            conditions=patched("type"),
            uncountedTerminatedPods=pointer(failed=UNPATCHED_SET, succeeded=UNPATCHED_SET),
        ),
    ),
    columns=(
        NAME,
        column("Status", _job_status, "What it is at."),
        column("Completions", _job_completions, "How many of its pods have finished."),
        column("Duration", _job_duration, "How long it took, or takes so far."),
        AGE,
        *workload_columns(),
    ),
)
