"""The private places that tests look into: when a file moves, this list alone follows it."""

from importlib import import_module

# Modules by their last name, and names by their module, some under another name. Each is imported when a test asks for it.
_NAMES = """
modules: _progress _savable cli._outcomes cli._synthesize decomposition._components domain._box domain._csv domain._files
modules: domain._opening domain._rows domain._source domain._source_chunks domain._source_files domain._unit_rows federated._masks
modules: measures._cells measures._deal measures._flow measures._grid_flow measures._network measures._placement measures._primal_dual
modules: measures._transport metrics._associations metrics._counts metrics._marginals metrics._quality metrics._quantiles
modules: metrics._tables model_selection._split model_selection._utilities models._factor_draw models._filling models._latent_factors
modules: models._marginal_model models._together models._training models._wide_factors privacy._discovery privacy._gaussian
modules: privacy._gaussian_dp privacy._intervals privacy._laplace privacy._ledger privacy._ledger_place privacy._matrix_laplace
modules: privacy._normals privacy._optimal privacy._rejection privacy._scales privacy._sup_norm statistics._duckdb
modules: statistics._histogram statistics._interactions statistics._magnitudes synthesis._base synthesis._drawing
modules: synthesis._latent_near synthesis._latent_planning synthesis._online_blocks synthesis._online_running synthesis._private_measure
modules: synthesis._signed_measure
modules: testing._evidence_kinds testing._evidence_losses
_blas: one_blas_thread
_change: Change units
_checks: shown
_input: dense_chunks native
_links: OUTERMOST PAGES page_of public_name
_locks: lock_of
_version: __version__
_whole_file: Aside place_of whole_file
auditing._attacked: HOLDOUT SYNTHETIC Space TRAIN Tables
auditing._attacks: attributes closest_record copies_of membership
auditing._bounds: lower_epsilon lower_mu lower_share
auditing._coins: is_refuted lower_epsilon_of_coins lower_mu_of_coins
auditing._counting: Counting
auditing._gaps: gap_of_means gap_of_shares
auditing._likelihood: RATIO untangled
auditing._matrix_density: minus_log_density
auditing._neighbors: check_neighbors
auditing._observing: Layout observed run
auditing._redrawn: Redrawn
auditing._rules: rules_learned=learned
cli._methods: chosen methods_learned=learned
cli._program: program
continual._base: ContinualCounter noise_for
continual._roots: _EARLY _NEAR
decomposition._components: with_signs
decomposition._location: centre_of radii_below radius_of
domain._axes: axis_of
domain._ball: _squared
domain._form: Form copied rows_of without_rows
domain._keyed_hash: siphash
domain._level_cells: level_cells
domain._levels: look_up_each read_levels
domain._orders: Orders in_order
domain._source: MOST_ROWS open_source rows_at_once
domain._source_files: ahead
domain._table: read_table
domain._unit_rows: _Choice
federated._messages: Round
fitting._bounds: alarm buy_bounds seen
fitting._budget: COUNT_SHARE
fitting._set_aside: set_aside
measures._flow: least_cost_flow
measures._line: _isotonic transport_on_a_line
measures._placement: _kronecker_steps placement_Numbers=Numbers
measures._primal_dual: PrimalDual
measures._transport: NearestMeasure
model_selection._plan_measures: Measure
model_selection._plan_result: Point
model_selection._plan_setting: setting_of
model_selection._plan_tables: Ground
model_selection._utilities: CapturedVariance MarginalDistance N_POINTS SlicedDistance
models._blocks: NoisyTables blocks_of
models._clear_bins: clear_law falls_of_widest expected_counts threshold_bins
models._contrasts: contrasts_expected=expected likely_contrasts
models._estimates: centred deviations_beside
models._factor_draw: CommonDraw FactorDraw _shuffle_within
models._filling: filled
models._finer_bins: FINE FinerBins
models._groups: Group
models._latent_factors: quasi_normal
models._level_groups: LevelGroups level_groups_expected=expected
models._linked_columns: linked linked_columns_Numbers=Numbers
models._links: InBins share_by_mass grade_bins with_counts
models._merged_pairs: MergedPairs
models._mixture: Mixture mixture_Part=Part
models._near: NearDraw pairs_near
models._near_law: NearPair
models._pooling: kept pooled
models._posterior: Pattern Posterior
models._row_law: RowLaw
models._splits: _means mass_of_splits
models._smoothness: Smoothness
models._systematic: CELLS CODES NODES STRATA points_below shifts_of shuffled_within
models._together: pay_together steps_together trained_together
models._training: OWN Targets Trained chosen_variance nearest_probabilities score softmax starts_of trained
models._triples: TripleErrors
models._unions: recoding
models._wide_training: Common WideTargets _Descent
privacy._composition: covers rho_of_pure total
privacy._discovery: is_hidden
privacy._gaussian: _table
privacy._gaussian_dp: LEAST_SCALE ROUNDED SLACK delta_above epsilon_of_gaussian gaussian_of_pure mills pure_of_gaussian
privacy._intervals: bernoulli_exp_minus exp_minus times
privacy._laplace: _digit _one_sided _two_sided
privacy._ledger_text: entry_of text_of text_of_entry thing_of
privacy._noise: Noise
privacy._normals: FIRST LIMB Normals fraction_bits
privacy._optimal: is_optimal optimal_epsilon
privacy._selection: ExponentialMechanism PermuteAndFlip _below _shuffled
privacy._table: SurvivalTable
privacy._totals: Sums
report._promise: rounded_up
statistics._classes: Cuts
statistics._cover: cover
statistics._cuts: EvenCuts WholeCuts
statistics._dask: added_sums dask_Part=Part
statistics._dependences: change_of_dependences=change dependences
statistics._distances: change distances
statistics._packed: Packed packed_sum
statistics._sql: of_raw
statistics._trees: levels_of
synthesis._dimension: n_directions needs_distance
synthesis._drawing: usual_number
synthesis._intervals: _interval
synthesis._latent_choice: FewPairs splits_of
synthesis._latent_near: spread_of
synthesis._latent_pairs: Pairs
synthesis._latent_planning: MOST_CODES MarginalsPlan
synthesis._latent_triples: has_triples with_triples
synthesis._low_dim: _signed_is_no_worse
synthesis._measure_plans: _stages_by_levels _stages_by_rows
synthesis._online_lengths: ending_length grown_length
synthesis._online_tree: GrowingTree shares_of_depths
synthesis._ranges: counts_of grid interval noise_of_ranges scales_of usual_ranges
synthesis._signed_measure: default_n_cells lattice_shape
synthesis._subspace: Subspace
testing._budget_laws: is_covered
testing._door: Lost fixed_bits pair_loss watched
testing._fit_laws: leaves_nothing
testing._law: LAWS entries_of rows
testing._state: difference held released written
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
