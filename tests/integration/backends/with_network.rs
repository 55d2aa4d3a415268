//! Backends that evaluate a network, alone and inside wrappers. They are created by name, as when a user selects them.

use super::*;
use rukh_registry::CreatedBackend;

fn create_with(network: &str, backend: &str, options: &str) -> Result<CreatedBackend, BackendError> {
    rukh_registry::create(&BackendConfig {
        backend: backend.to_owned(),
        options: options.to_owned(),
        network: format!("{}/tests/data/{network}.pb.gz", env!("CARGO_MANIFEST_DIR")),
        cache_entries: 0,
        ..BackendConfig::default()
    })
}

fn evaluate_with(network: &str, backend: &str, options: &str, samples: &[Sample]) -> Vec<Evaluation> {
    let created = create_with(network, backend, options).unwrap_or_else(|error| panic!("{options}: {error}"));
    evaluate(&*created.backend, samples).unwrap()
}

#[test]
fn auto_chooses_the_cpu_without_a_gpu() {
    let created = match create_with("micro-attn", "auto", "threads=2,max_batch=8") {
        Ok(created) => created,
        // With a GPU, the CPU's option `threads` is refused.
        Err(error) => return assert!(error.to_string().contains("threads=2"), "{error}"),
    };
    let name = &created.backend.attributes().name;
    if name.starts_with("cuda-auto (") {
        println!("skipped: this machine has an NVIDIA card");
        return;
    }
    let ([notice], [choice, missing]) = (created.notices.as_slice(), created.details.as_slice()) else {
        panic!("not one notice and two details: {:?}, {:?}", created.notices, created.details)
    };
    let (used, instructions) = name.trim_end_matches(')').split_once(" (").unwrap();
    let start = format!("no graphics card that Rukh can use; using the processor ({instructions}");
    assert!(notice.starts_with(&start), "{notice}, but {name}");
    assert!(missing.contains("rocm-auto") && missing.ends_with("using cpu-auto instead"), "{missing}");
    assert!(choice.starts_with(&format!("cpu-auto uses {used}")), "{choice}, but {name}");
    assert!(created.backend.attributes().maximum_batch_size >= 1024);
    let error = create_with("micro-attn", "auto", "treads=2").map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("treads=2"), "`auto` must report a misspelt option: {error}");
}

#[test]
fn wrappers_around_the_cpu_backend_change_nothing() {
    // The samples have histories of many lengths. A wrapper that copies a position for another thread must copy enough
    // of its history for the encoder.
    let samples = samples(40);
    let expected = evaluate_with("micro-attn", "cpu", "", &samples);
    for (backend, options) in [
        ("cpu", "batch_size=7,threads=2"),
        ("multiplexing", "cpu,second(backend=cpu,workers=2)"),
        ("demux", "backend=cpu,(),()"),
        ("roundrobin", "backend=cpu,(),()"),
        ("check", "freq=1,cpu,b(backend=cpu)"),
    ] {
        let found = evaluate_with("micro-attn", backend, options, &samples);
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found.value.q - expected.value.q).abs() < 1e-5, "{backend} -o {options}");
            for (found, expected) in found.priors.iter().zip(&expected.priors) {
                assert!((found - expected).abs() < 1e-5, "{backend} -o {options}");
            }
        }
    }
}

#[test]
fn the_options_of_a_child_choose_its_heads() {
    let samples = samples(3);
    let heads = |policy: &str| {
        evaluate_with(
            "micro-multihead",
            "roundrobin",
            &format!("backend=cpu,(policy_head={policy})"),
            &samples,
        )
    };
    assert_ne!(heads("vanilla")[0].priors, heads("optimistic")[0].priors);
    assert_eq!(heads("vanilla")[0].value, heads("optimistic")[0].value);
}

#[test]
fn the_cpu_backend_names_what_it_refuses() {
    for (network, options, part) in [
        ("micro-attn", "threads=0", "threads=0"),
        ("micro-attn", "isa=mmx", "this processor supports"),
        ("micro-attn", "gup=0", "gup=0"),
        ("micro-attn", "policy_head=nonsense", "nonsense"),
        ("no-such", "", "no-such.pb.gz"),
    ] {
        let error = create_with(network, "cpu", options).err().map(|error| error.to_string());
        assert!(
            error.as_ref().is_some_and(|error| error.contains(part)),
            "{network} -o {options}: {error:?}"
        );
    }
}
