"""Fit diffprivlib's or OpenDP's private PCA to a table and write its components.

    python benchmarks/peers/fit_pca.py --tool diffprivlib --table ROWS.npy --components 2 --epsilon 1 --center public --out OUT.npy

The rows lie in [-1/2, 1/2]^d: they were moved by the public midpoint of their box. Both tools ask for a public bound on the norm of a
row and get the distance from the midpoint to a corner, and both shrink rows to it. With `--center public` they are told that the
rows are centered; with `--center private` they release a mean within the same epsilon. Prints the seconds as one line of
JSON. Needs nothing of skdpsynth.

What epsilon means. Both implement Amin, Dick, Kulesza, Munoz Medina, Vassilvitskii (2019). diffprivlib takes the number of rows as public
and 2 as the sensitivity of eigenvalues, as for replacing a row. OpenDP's privacy map charges epsilon for each row added or removed:
replacing one costs twice the epsilon that is passed here. Both sample eigenvectors by rejection, for as long as that takes: whoever calls
this sets a limit.
"""

import argparse
import json
import time
import warnings

import numpy as np


def diffprivlib_components(X, arguments, norm):
    from diffprivlib.models import PCA

    is_centered = arguments.center == "public"
    model = PCA(arguments.components, epsilon=arguments.epsilon, data_norm=norm, centered=is_centered, bounds=(-0.5, 0.5))
    return model.fit(X).components_


def opendp_components(X, arguments, norm):
    import opendp.prelude as dp
    from opendp.extras.sklearn.decomposition import make_private_pca

    dp.enable_features("contrib", "honest-but-curious", "idealized-numerics")
    n, d = X.shape
    if arguments.center == "private":
        model = dp.sklearn.decomposition.PCA(
            epsilon=arguments.epsilon, row_norm=norm, n_samples=n, n_features=d, n_components=arguments.components
        )
        return model.fit(X).components_
    # The estimator always buys a mean; its constructor does not where the origin of the domain is known.
    domain = dp.numpy.array2_domain(num_columns=d, size=n, norm=norm, p=2, origin=np.zeros(d), T=float)
    # As the estimator does, pass twice its epsilon: the loss of two changes, a row taken out and one put in.
    release = make_private_pca(domain, dp.symmetric_distance(), 2.0 * arguments.epsilon, num_components=arguments.components)
    return release(X * np.minimum(1, norm * (1 - 1e-12) / np.maximum(np.linalg.norm(X, axis=1), 1e-12))[:, None]).Vt


TOOLS = {"diffprivlib": diffprivlib_components, "opendp": opendp_components}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", choices=TOOLS, required=True)
    parser.add_argument("--table", required=True)
    parser.add_argument("--components", type=int, required=True)
    parser.add_argument("--epsilon", type=float, required=True)
    parser.add_argument("--center", choices=("public", "private"), required=True)
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = np.load(arguments.table)
    start = time.perf_counter()
    components = TOOLS[arguments.tool](rows, arguments, np.sqrt(rows.shape[1]) / 2)
    print(json.dumps({"fit_seconds": round(time.perf_counter() - start, 3)}))
    np.save(arguments.out, np.asarray(components)[: arguments.components])
