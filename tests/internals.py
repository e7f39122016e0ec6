"""The private places that tests look into: when a file moves, this list alone follows it."""

from importlib import import_module

# Modules by their last name, and names by their module, some under another name. Each is imported when a test asks for it.
_NAMES = """
modules: _progress _serialization cli._program cli._synthesize decomposition._pca_api domain._box frames._csv
modules: tables._open frames._source frames._open_source frames._files frames._privacy_units federated._sites
modules: _parallel measures._partition measures._measure model_selection._search
modules: privacy._random privacy._noise measures._min_cost_flow measures._grid_transport measures._ortools measures._placement
modules: measures._transport metrics._read_tables metrics._marginals metrics._quality
modules: models._mixture_sampling models._conditional_sampling
modules: models._latent_factors
modules: models._measurements models._training models._wide_factors privacy._selection privacy._gaussian
modules: privacy._laplace privacy._ledger_entry privacy._ledger_file privacy._matrix_laplace
modules: privacy._composition duckdb._sql
modules: statistics._interactions statistics._counts synthesis._base
modules: synthesis._latent_selection synthesis._latent_planning synthesis._online_blocks synthesis._online
modules: synthesis._private_measure
modules: synthesis._signed_measure
_parallel: one_blas_thread
_sensitivity: Sensitivity count_sensitivity
_validation: short_repr
frames._table_kind: dense_chunks
frames._table_kind: to_native
_sklearn: API_URL public_name
_parallel: lock_of
_version: __version__
_atomic_write: PendingFile output_path atomic_write
auditing._attacks: HOLDOUT SYNTHETIC Space TRAIN Tables attributes closest_record find_copies membership gap_of_means gap_of_shares
auditing._result: lower_epsilon lower_mu lower_share is_refuted lower_epsilon_of_one_run lower_mu_of_one_run
auditing._outputs: independent_draws minus_log_density visible_numbers run
auditing._neighbors: check_neighbors CountingMechanism
auditing._audit: Layout NoiseAudit RATIO rules_learned=learn_rule
cli._synthesize: choose_method methods_learned=modeled_schema
cli._messages: in_words_of_commands
cli._program: program
continual._tree: ContinualCounter calibrate_noise
continual._square_root: _EARLY _NEAR
decomposition._pca_api: fix_signs
decomposition._pca: shrunken_center candidate_radii choose_radius
domain._box: _squared_lengths
frames._table_kind: TableKind copy_chunk slice_rows split_columns without_rows
frames._privacy_units: siphash
tables._cells: numbers_of
tables._open: ApplyPrivateFacts
tables._cells: level_cells
tables._cells: Codes look_up read_levels cells_of
domain._order_constraints: Orders axis_of in_order
frames._source: MOST_ROWS rows_at_once
frames._open_source: open_source
frames._files: read_ahead
frames._privacy_units: _Choice
federated._sites: Round
fitting._budget: noise_threshold buy_bounds occupied_cells NumberOfRows
measures._min_cost_flow: min_cost_flow
measures._grid_transport: _isotonic transport_on_a_line
measures._placement: _kronecker_steps placement_Numbers=PointNumbers
measures._grid_transport: PrimalDual
measures._transport: NearestMeasure
model_selection._plan: Measure Point make_setting RowSource
model_selection._search: CapturedVariance MarginalDistance N_POINTS SlicedDistance
models._noisy_tables: NoisyTables join_into_blocks
models._significant_bins: threshold_link tail_directions expected_counts threshold_bins
models._measurements: contrasts_expected=posterior_means shrink_class_contrasts
models._noisy_tables: center_table weighting_deviations
models._mixture_sampling: CommonNodeSampler MixtureSampler _shuffle_places_within
models._conditional_sampling: sample_missing
models._quantile_bins: N_FINE_BINS RefinedBins
models._structural_zeros: ConstrainedGroup
models._latent_factors: quasi_normal
models._quantile_bins: LevelGroups level_groups_expected=posterior_counts
models._within_bin: link_column linked_columns_Numbers=NumberColumn
models._quantile_bins: CellsInBins share_by_mass grade_bins reweigh_bins
models._wide_factors: CoarsePairs
models._mixture: Mixture mixture_Part=Part
models._within_bin: DifferenceSampler difference_pairs
models._structural_zeros: WeightedPair
models._noisy_tables: james_stein_factor pool_tables
models._mixture: Pattern Posterior
models._joint_distribution: JointDistribution
models._quantile_bins: _smooth_shares split_mass
models._training: Smoothness
models._mixture_sampling: CELLS CODES NODES STRATA points_below block_shifts shuffle_within
models._training: CLASS_SHARE Targets FactorFit choose_variance nearest_probabilities score softmax starts_of train_factors
models._training: TripleErrors
models._measurements: recoding_matrix
models._wide_factors: CommonFactors WideTargets _Descent
privacy._composition: covers rho_of_pure
privacy._selection: is_hidden
privacy._gaussian: _survival_table
privacy._gaussian: LEAST_SCALE ROUNDING_VARIANCE SLACK delta_above
privacy._gaussian: epsilon_of_gaussian gaussian_of_pure mills_ratio_bounds pure_of_gaussian
privacy._random: bernoulli_exp_minus exp_minus multiply_bounds
privacy._laplace: _digit_table _power_table
privacy._ledger_entry: to_text parse_text
privacy._noise: Noise
privacy._matrix_laplace: FIRST_LIMB_BITS LIMB_BITS Normals fraction_bits
privacy._composition: covers_composition optimal_epsilon
privacy._selection: ExponentialMechanism PermuteAndFlip _uniform_below _random_permutation
privacy._random: SurvivalTable
privacy._composition: Sums
report._facts: round_up
duckdb._sql: choose_joint_tables
duckdb._sql: Cuts EvenCuts WholeCuts
frames._partitions: Summing add_parts dask_Part=Part
statistics._interactions: sensitivity_of_dependences dependences
statistics._interactions: sensitivity_of_distances distances
frames._partitions: Packed
duckdb._sql: codes_of_cells
statistics._marginals: levels_of
synthesis._base: default_n_samples
synthesis._intervals: _bias_corrected_interval
synthesis._latent_selection: PairSelection column_splits
synthesis._latent_scores: LatentLinks
synthesis._latent_selection: independent_share
synthesis._latent_planning: PairRelease
synthesis._latent_planning: MAX_CODES MarginalsPlan
synthesis._latent_selection: has_triples plan_triples
synthesis._low_dim: n_directions needs_distance
synthesis._private_measure: _stages_by_levels _stages_by_rows
synthesis._online_blocks: length_until_horizon
synthesis._online_tree: GrowingTree depth_shares
synthesis._subspace: count_axis_cells range_edges choose_interval range_noise axis_scales default_ranges
synthesis._signed_measure: default_n_cells lattice_shape
synthesis._subspace: Subspace
testing._budget_laws: NoiseLoss is_covered pair_loss
testing._fit_laws: require_fresh_refit
testing: LAWS
testing._harness: difference entries_of fixed_bits full_state released_state rows serialized_bytes watch_releases
"""
_PLACES = {}
for line in _NAMES.strip().splitlines():
    module, _, names = line.partition(": ")
    for name in names.split():
        place = (name, "") if module == "modules" else (module, name.rpartition("=")[2])
        _PLACES[name.rpartition(".")[2].partition("=")[0]] = place


def __getattr__(name):
    if name not in _PLACES:
        raise AttributeError(name)
    place, attribute = _PLACES[name]
    found = import_module(f"skdpsynth.{place}")
    return getattr(found, attribute) if attribute else found
