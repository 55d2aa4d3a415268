//! What the findings mean for the user, and what to do.

use super::report::{Report, StageReport, State, Table};
use rukh_gpu::doctor::Stage;

/// How to get ROCm's libraries.
const INSTALL: &str = "\
Ubuntu 26.04, Debian 13 and newer: sudo apt install libamdhip64-dev librocblas-dev libhipblaslt-dev
AMD's own packages for Ubuntu, Debian, RHEL and SUSE: rocm-hip-libraries, or amdrocm-blas for newer releases
Fedora: sudo dnf install rocm-hip rocblas hipblaslt
Arch: sudo pacman -S hip-runtime-amd rocblas hipblaslt
Windows: HIP comes with AMD's display driver, and the other libraries with AMD's HIP SDK, from amd.com
Python's wheels of ROCm are found too, in an active environment. If ROCm is in another folder, set ROCM_PATH.";

/// Sentences for the user, the most important ones first.
pub(super) fn advice(report: &Report) -> Vec<String> {
    let stage = |wanted: Stage| report.stages.iter().find(|stage| stage.stage == wanted);
    let mut advice = Vec::new();
    if let Some(devices) = stage(Stage::Devices) {
        advice.extend(about_devices(devices));
    }
    let is_bad = |wanted: Stage| stage(wanted).is_some_and(StageReport::has_wrong_rows);
    let failed: Vec<&str> = report
        .stages
        .iter()
        .filter(|stage| stage.stage != Stage::Gemms && stage.has_failures())
        .map(|stage| stage.stage.name())
        .collect();
    if !failed.is_empty() {
        advice.push(format!(
            "Something failed or hung in the stages {}. The messages of the driver (`sudo dmesg`) may say why; please \
             add those about amdgpu to the issue.",
            failed.join(", ")
        ));
    }
    if is_bad(Stage::Kernels) {
        advice.push(
            "Rukh's kernels are wrong on this card, which is a bug of Rukh, of the compiler or of the driver. Until it \
             is mended, play with `backend=cpu` in rukh.config."
                .to_owned(),
        );
    }
    advice.extend(stage(Stage::Gemms).and_then(about_gemms));
    if is_bad(Stage::Graphs) {
        advice.push(
            "Graphs or parallel branches fail, or give other figures than single steps. `graph=false` in the options \
             turns graphs off, and `fork=0` turns branches off."
                .to_owned(),
        );
    }
    if is_bad(Stage::Network) {
        advice.push(
            "The network's figures on the card differ from the processor's. At its start Rukh looks for a way that is \
             right, and uses the processor if there is none."
                .to_owned(),
        );
    }
    if let Some(settings) = stage(Stage::Speed).and_then(|speed| speed.table("settings")) {
        let lines: Vec<&str> = settings
            .rows
            .iter()
            .map(|row| settings.text(row, "line"))
            .filter(|line| !line.is_empty())
            .collect();
        if !lines.is_empty() {
            advice.push(format!("The fastest settings, as lines for rukh.config:\n{}", lines.join("\n")));
        }
    }
    advice
}

/// What is missing before anything can run.
fn about_devices(devices: &StageReport) -> Vec<String> {
    let mut advice = Vec::new();
    let libraries = devices.table("libraries");
    let is_right = |name: &str| {
        libraries.is_some_and(|table| {
            table.rows.iter().any(|row| table.text(row, "library") == name && !table.is_wrong(row))
        })
    };
    let is_listed = |name: &str| {
        libraries.is_some_and(|table| table.rows.iter().any(|row| table.text(row, "library") == name))
    };
    if is_listed("HIP") && !is_right("HIP") {
        advice.push(format!(
            "HIP, the runtime of ROCm, is not installed or cannot be loaded. Without it Rukh plays on the \
             processor.\n{INSTALL}\nFor a card of NVIDIA's, `rukh doctor --backend=cuda-auto` says what is missing."
        ));
    } else if is_listed("rocBLAS") && !is_right("rocBLAS") && !is_right("hipBLASLt") {
        advice.push(format!(
            "Neither rocBLAS nor hipBLASLt can be used. Rukh needs one of them to multiply matrices on the \
             card.\n{INSTALL}"
        ));
    } else if is_listed("rocBLAS") && is_listed("hipBLASLt") {
        let absent = ["rocBLAS", "hipBLASLt"].into_iter().find(|name| !is_right(name));
        advice.extend(absent.map(|name| {
            format!("{name} cannot be used. Rukh runs without it, but some GEMMs may be faster with it.\n{INSTALL}")
        }));
    }
    if is_listed("CUDA") && !is_right("CUDA") {
        advice.push(
            "NVIDIA's display driver is not installed or cannot be loaded. Without it Rukh plays on the processor. Nothing \
             else of NVIDIA's is needed."
                .to_owned(),
        );
    }
    if is_right("CUDA")
        && let State::Failed(reason) = &devices.state
    {
        advice.push(format!(
            "No card can be used: {reason}. If `nvidia-smi` lists the card, please report this; if it does not, mend the \
             driver, or give the container the card."
        ));
    }
    if is_right("HIP")
        && let State::Failed(reason) = &devices.state
    {
        advice.push(format!(
            "No card can be used: {reason}. If the card is listed under System, check the driver amdgpu and the rights \
             of this user (groups render and video). If it is not listed, this machine or container has no AMD card."
        ));
    }
    advice
}

/// Which library to leave out, if all that went wrong is of one library.
fn about_gemms(gemms: &StageReport) -> Option<String> {
    if !gemms.has_wrong_rows() && gemms.deaths.is_empty() {
        return None;
    }
    let wrong = |table: &Table| -> Vec<String> {
        let rows = table.rows.iter().filter(|row| table.is_wrong(row));
        rows.map(|row| table.text(row, "by").to_lowercase()).collect()
    };
    let mut culprits: Vec<String> = gemms.tables.iter().flat_map(wrong).collect();
    culprits.extend(gemms.deaths.iter().map(|death| death.item.to_lowercase()));
    let all = |name: &str| !culprits.is_empty() && culprits.iter().all(|culprit| culprit.contains(name));
    let remedy = if all("cublaslt") {
        "`gemm=own` in the backend's options leaves cuBLASLt out."
    } else if all("hipblaslt") {
        "`gemm=rocblas` in the backend's options leaves hipBLASLt out."
    } else if all("rocblas") {
        "`gemm=hipblaslt` in the backend's options leaves rocBLAS out."
    } else {
        "At its start Rukh leaves out what ends a process, and checks the figures."
    };
    Some(format!("Some GEMMs of the installed libraries crash or are wrong. {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::super::privacy::Privacy;
    use super::*;
    use rukh_gpu::doctor::{Cells, Line};

    fn report(stage: Stage, table: &str, rows: &[[(&str, &str); 2]], state: State) -> Report {
        let mut found = StageReport::new(stage);
        found.state = state;
        for row in rows {
            let cells: Cells = row.iter().map(|&(column, text)| (column.to_owned(), text.into())).collect();
            found.take(Line::Row { table: table.to_owned(), cells }, &Privacy::of_this_machine());
        }
        Report { about: Vec::new(), system: Vec::new(), stages: vec![found] }
    }

    #[test]
    fn what_is_missing_is_named_with_the_way_to_get_it() {
        let libraries = |hip, rocblas, hipblaslt| {
            let rows = [("HIP", hip), ("rocBLAS", rocblas), ("hipBLASLt", hipblaslt)];
            let rows = rows.map(|(name, verdict)| [("library", name), ("verdict", verdict)]);
            advice(&report(Stage::Devices, "libraries", &rows, State::Done))
        };
        let missing = libraries("missing", "missing", "missing");
        assert!(missing.len() == 1 && missing[0].starts_with("HIP, the runtime"), "{missing:?}");
        for distribution in ["Ubuntu", "Fedora: sudo dnf", "Arch: sudo pacman", "Windows", "cuda-auto"] {
            assert!(missing[0].contains(distribution), "{missing:?}");
        }
        assert!(libraries("right", "missing", "wrong")[0].starts_with("Neither rocBLAS nor hipBLASLt"));
        assert!(libraries("right", "right", "missing")[0].starts_with("hipBLASLt cannot be used"));
        assert!(libraries("right", "right", "right").is_empty());
    }

    #[test]
    fn a_hang_is_not_taken_for_a_wrong_kernel() {
        let kernels = |table, row| advice(&report(Stage::Kernels, table, &[row], State::Done)).concat();
        let hung = kernels("errors", [("item", "softmax"), ("error", "device 0 has not finished")]);
        assert!(hung.contains("in the stages kernels") && !hung.contains("kernels are wrong"), "{hung}");
        let wrong = kernels("kernels", [("kernel", "softmax"), ("verdict", "wrong")]);
        assert!(wrong.contains("kernels are wrong") && !wrong.contains("in the stages"), "{wrong}");
    }

    #[test]
    fn a_library_that_alone_is_wrong_is_left_out() {
        let gemms = |rows: &[[(&str, &str); 2]]| advice(&report(Stage::Gemms, "gemms", rows, State::Done));
        let right = [("by", "rocBLAS"), ("verdict", "right")];
        let wrong = |library| [("by", library), ("verdict", "wrong")];
        assert!(gemms(&[right]).is_empty());
        assert!(gemms(&[right, wrong("hipBLASLt")])[0].contains("`gemm=rocblas`"));
        assert!(gemms(&[right, wrong("cuBLASLt")])[0].contains("`gemm=own`"));
        assert!(gemms(&[wrong("rocBLAS")])[0].contains("`gemm=hipblaslt`"));
        assert!(gemms(&[wrong("rocBLAS"), wrong("hipBLASLt")])[0].contains("At its start"));
    }
}
